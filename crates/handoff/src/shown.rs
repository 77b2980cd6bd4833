//! Each command line of this program that the book shows is one that it takes: options are not renamed on one side only.

use std::ffi::OsString;
use std::iter;

use clap::error::ErrorKind;
use handoff_testkit::book::{pages, programs};

use crate::{cli, legacy};

/// The arguments that this program is given, if these words start it: by its name, through `adb shell` or by Cargo.
fn arguments(words: &[String]) -> Option<&[String]> {
    let words: &[String] = match words {
        [adb, shell, rest @ ..] if adb == "adb" && shell == "shell" => rest,
        [cargo, run, release, rest @ ..] if cargo == "cargo" && run == "run" && release == "--release" => {
            return rest.split_first().filter(|(first, _)| *first == "--").map(|(_, rest)| rest);
        }
        words => words,
    };
    let (first, rest) = words.split_first()?;
    (first == "handoff" || first.ends_with("/handoff")).then_some(rest)
}

/// The arguments of the command that a guest, a proof or a recording starts in turn, if that is this program's.
fn inner(arguments: &[String]) -> Option<&[String]> {
    let at = arguments.iter().position(|word| word == "--")?;
    let (own, started) = (&arguments[..at], &arguments[at + 1..]);
    let begins = |names: &[&str]| own.iter().map(String::as_str).take(names.len()).eq(names.iter().copied());
    match started.split_first()? {
        (first, rest) if first == "handoff" => Some(rest),
        _ if begins(&["guest", "run"]) && !own.iter().any(|word| word == "--raw") => Some(started),
        _ if begins(&["kernel", "prove"]) => Some(started),
        _ => None,
    }
}

#[test]
fn each_command_line_of_the_book_is_taken() {
    let mut parser = cli::configured().1;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages() {
        for line in page.command_lines() {
            let programs = programs(&line);
            let commands = programs.iter().filter_map(|words| arguments(words));
            for arguments in commands.flat_map(|arguments| iter::once(arguments).chain(inner(arguments))) {
                count += 1;
                let given =
                    iter::once("handoff").chain(arguments.iter().map(String::as_str)).map(OsString::from);
                if let Err(error) = parser.try_get_matches_from_mut(legacy::rewrite(given))
                    && error.kind() != ErrorKind::DisplayHelp
                {
                    wrong.push(format!("{}: {line}\n{error}", page.name));
                }
            }
        }
    }
    assert!(count > 150, "only {count} command lines were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
