//! Spellings that people bring from other tools, rewritten before the options are parsed.
//!
//! `libhwbinder_latency` and `schd-dbg` take long options with one dash (`-pair 4 -deadline_us 2500
//! -raw_data`), and Google Benchmark's have underscores (`--benchmark_format=json`). Scripts that call
//! them should work with the name of the program exchanged, so for [`COMMANDS`], and for no other
//! command, each such spelling becomes the one that `--help` shows. A spelling that is not known
//! passes through, so that the error names what was typed.

use std::ffi::{OsStr, OsString};

/// The commands that have a predecessor, each with its long options of one dash.
const COMMANDS: [(&str, &[&str]); 3] =
    [("latency", &["pair", "deadline_us", "raw_data", "trace"]), ("throughput", &[]), ("add-ints", &[])];

/// Options of `handoff` itself whose value may be the next argument, before the command's name.
const GLOBAL_WITH_VALUE: [&str; 2] = ["--format", "--color"];

/// The arguments as the parser knows them. The first is the name of the program, as always.
pub(crate) fn rewrite(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    // As kubectl, go and docker have it.
    if args.len() == 2 && args[1] == "version" {
        args[1] = "--version".into();
    }
    let Some((at, one_dash)) = find_command(&args) else { return args };
    for argument in args[at + 1..].iter_mut().take_while(|argument| *argument != "--") {
        if let Some(modern) = argument.to_str().and_then(|spelling| modernise(spelling, one_dash)) {
            *argument = modern.into();
        }
    }
    args
}

/// Where the command's name stands, and its options of one dash, if it is one of ours.
fn find_command(args: &[OsString]) -> Option<(usize, &'static [&'static str])> {
    let mut at = 1;
    while let Some(argument) = args.get(at).map(OsString::as_os_str) {
        if GLOBAL_WITH_VALUE.iter().any(|global| argument == OsStr::new(global)) {
            at += 2;
        } else if argument.as_encoded_bytes().starts_with(b"-") {
            at += 1;
        } else {
            return COMMANDS
                .iter()
                .find(|(name, _)| argument == OsStr::new(name))
                .map(|&(_, options)| (at, options));
        }
    }
    None
}

/// The modern spelling, if `spelling` is an old one. Only the name changes, never a value.
fn modernise(spelling: &str, one_dash: &[&str]) -> Option<String> {
    let (name, value) = match spelling.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (spelling, None),
    };
    let long = match name.strip_prefix("--") {
        Some(long) if long.contains('_') => long,
        Some(_) => return None,
        None => name.strip_prefix('-').filter(|name| one_dash.contains(name))?,
    };
    let long = long.replace('_', "-");
    Some(match value {
        Some(value) => format!("--{long}={value}"),
        None => format!("--{long}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let args = rewrite(line.split(' ').map(OsString::from));
        args.join(OsStr::new(" ")).into_string().expect("it was UTF-8")
    }

    #[test]
    fn the_version_may_be_asked_for_as_a_command() {
        assert_eq!(rewritten("handoff version"), "handoff --version");
        assert_eq!(rewritten("handoff latency version"), "handoff latency version");
    }

    #[test]
    fn latency_takes_the_old_options() {
        assert_eq!(
            rewritten("handoff latency -i 5000 -pair 4 -deadline_us 2500 -v -raw_data -m PASSTHROUGH"),
            "handoff latency -i 5000 --pair 4 --deadline-us 2500 -v --raw-data -m PASSTHROUGH"
        );
        assert_eq!(rewritten("handoff latency -pair=4 -trace"), "handoff latency --pair=4 --trace");
    }

    #[test]
    fn throughput_takes_google_benchmarks_options() {
        assert_eq!(
            rewritten("handoff throughput --benchmark_format=json --benchmark_out=/tmp/a_b.json"),
            "handoff throughput --benchmark-format=json --benchmark-out=/tmp/a_b.json"
        );
        assert_eq!(
            rewritten("handoff throughput --benchmark_filter BM_x"),
            "handoff throughput --benchmark-filter BM_x"
        );
    }

    #[test]
    fn global_options_may_stand_before_the_command() {
        assert_eq!(
            rewritten("handoff --format json --color=never latency -pair 2"),
            "handoff --format json --color=never latency --pair 2"
        );
        assert_eq!(rewritten("handoff --format latency man -pair"), "handoff --format latency man -pair");
    }

    #[test]
    fn nothing_else_is_touched() {
        for line in [
            "handoff",
            "handoff --help",
            "handoff man -pair",
            "handoff latency -pairs 4",
            "handoff latency -p 4",
            "handoff latency -- -pair --deadline_us",
            "handoff throughput -pair 4",
            "handoff add-ints -s 0 -c 1 -n 1000 -d 1e-3",
            "handoff latency --name some_value",
        ] {
            assert_eq!(rewritten(line), line);
        }
    }

    #[test]
    fn bytes_that_are_no_text_pass_through() {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = OsString::from_vec(vec![b'-', b'-', 0xff, b'_']);
        let args = vec!["handoff".into(), "latency".into(), odd];
        assert_eq!(rewrite(args.clone()), args);
    }
}
