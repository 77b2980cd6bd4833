//! Spellings that people bring from other tools, rewritten before the options are parsed.
//!
//! `libhwbinder_latency` and `schd-dbg` take long options with one dash (`-pair 4 -deadline_us 2500
//! -raw_data`), and Google Benchmark's have underscores (`--benchmark_format=json`). Scripts that call
//! them should work with the name of the program exchanged, so [`COMMANDS`], and no other command, take each such
//! spelling. Options with underscores are hidden aliases, which a shell completes; one dash becomes two before the
//! parser sees it. A spelling that is not known passes through, so that the error names what was typed.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

/// The commands that have a predecessor, each with its long options of one dash.
const COMMANDS: [(&str, &[&str]); 3] =
    [("latency", &["pair", "deadline_us", "raw_data", "trace"]), ("throughput", &[]), ("add-ints", &[])];

/// Commands that were once at the top, and where they are now. `handoff measure latency` may be typed as
/// `handoff latency` for good: scripts of the tools that it follows have one word there.
const MOVED: [(&str, &str); 9] = [
    ("add-ints", "measure add-ints"),
    ("affinity-study", "measure affinity-study"),
    ("floors", "measure floors"),
    ("latency", "measure latency"),
    ("phases", "measure phases"),
    ("throughput", "measure throughput"),
    ("trace", "sched"),
    ("transports", "measure transports"),
    ("workload", "measure"),
];

/// Options of `handoff` itself whose value may be the next argument, before the command's name.
const GLOBAL_WITH_VALUE: [&str; 2] = ["--format", "--color"];

/// Has each of [`COMMANDS`] take its long options with underscores, too.
pub(crate) fn with_underscores(command: Command) -> Command {
    let aliased = |arg: Arg| match arg.get_long().filter(|long| long.contains('-')) {
        // The parser keeps names for as long as the program runs, and so they live as long.
        Some(long) => {
            let alias: &'static str = long.replace('-', "_").leak();
            arg.alias(alias)
        }
        None => arg,
    };
    command.mut_subcommand("measure", |measure| {
        COMMANDS.iter().fold(measure, |measure, (name, _)| {
            measure.mut_subcommand(name, |command| command.mut_args(aliased))
        })
    })
}

/// The arguments as the parser knows them. The first is the name of the program, as always.
pub(crate) fn rewrite(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let Some(mut at) = next_word(&args, 1) else { return args };
    if args[at] == "help" {
        let Some(topic) = next_word(&args, at + 1) else { return args };
        at = topic;
    }
    if let Some((_, now)) = MOVED.iter().find(|(old, _)| args[at] == *old) {
        args.splice(at..=at, now.split(' ').map(OsString::from));
    }
    if args[at] != "measure" {
        return args;
    }
    let Some(at) = next_word(&args, at + 1) else { return args };
    let Some((_, one_dash)) = COMMANDS.iter().find(|(name, _)| args[at] == *name) else { return args };
    for argument in args[at + 1..].iter_mut().take_while(|argument| *argument != "--") {
        if let Some(modern) = argument.to_str().and_then(|spelling| modernise(spelling, one_dash)) {
            *argument = modern.into();
        }
    }
    args
}

/// Where the first argument from `at` on stands that is neither an option of `handoff` itself nor its value.
fn next_word(args: &[OsString], mut at: usize) -> Option<usize> {
    while let Some(argument) = args.get(at).map(OsString::as_os_str) {
        if GLOBAL_WITH_VALUE.iter().any(|global| argument == OsStr::new(global)) {
            at += 2;
        } else if argument.as_encoded_bytes().starts_with(b"-") {
            at += 1;
        } else {
            return Some(at);
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
    let long = name.strip_prefix('-').filter(|name| one_dash.contains(name))?.replace('_', "-");
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
    fn commands_that_moved_are_found_where_they_were() {
        for (old, new) in [
            ("handoff workload hackbench -g 2", "handoff measure hackbench -g 2"),
            ("handoff --format json floors", "handoff --format json measure floors"),
            ("handoff trace export a.dat --html b.html", "handoff sched export a.dat --html b.html"),
            ("handoff help latency", "handoff help measure latency"),
            ("handoff help", "handoff help"),
            ("handoff exec -- latency", "handoff exec -- latency"),
            ("handoff lab latency", "handoff lab latency"),
        ] {
            assert_eq!(rewritten(old), new);
        }
    }

    #[test]
    fn what_moved_is_a_command_where_it_is_now() {
        let command = crate::cli::command();
        for (old, now) in MOVED {
            assert!(command.find_subcommand(old).is_none(), "`{old}` is still at the top");
            let found = now.split(' ').try_fold(&command, |command, word| command.find_subcommand(word));
            assert!(found.is_some(), "there is no `{now}`");
        }
    }

    #[test]
    fn latency_takes_the_old_options() {
        assert_eq!(
            rewritten("handoff latency -i 5000 -pair 4 -deadline_us 2500 -v -raw_data -m PASSTHROUGH"),
            "handoff measure latency -i 5000 --pair 4 --deadline-us 2500 -v --raw-data -m PASSTHROUGH"
        );
        assert_eq!(rewritten("handoff latency -pair=4 -trace"), "handoff measure latency --pair=4 --trace");
    }

    #[test]
    fn throughput_takes_google_benchmarks_options() {
        let parsed = |line: &str| {
            let matches = crate::cli::command().try_get_matches_from(line.split(' ')).expect("sound");
            let (_, measure) = matches.subcommand().expect("measure");
            measure.subcommand().expect("throughput").1.clone()
        };
        let throughput =
            parsed("handoff measure throughput --benchmark_filter=BM_x --benchmark_repetitions 3");
        assert_eq!(throughput.get_one::<String>("benchmark_filter").map(String::as_str), Some("BM_x"));
        assert_eq!(throughput.get_one::<u32>("benchmark_repetitions"), Some(&3));
    }

    #[test]
    fn global_options_may_stand_before_the_command() {
        assert_eq!(
            rewritten("handoff --format json --color=never latency -pair 2"),
            "handoff --format json --color=never measure latency --pair 2"
        );
        assert_eq!(rewritten("handoff --format latency man -pair"), "handoff --format latency man -pair");
    }

    #[test]
    fn nothing_else_is_touched() {
        for line in [
            "handoff",
            "handoff --help",
            "handoff man -pair",
            "handoff measure latency -pairs 4",
            "handoff measure latency -p 4",
            "handoff measure latency -- -pair --deadline_us",
            "handoff measure throughput -pair 4",
            "handoff measure add-ints -s 0 -c 1 -n 1000 -d 1e-3",
            "handoff measure latency --name some_value",
        ] {
            assert_eq!(rewritten(line), line);
        }
    }

    #[test]
    fn bytes_that_are_no_text_pass_through() {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = OsString::from_vec(vec![b'-', b'-', 0xff, b'_']);
        let args = vec!["handoff".into(), "measure".into(), "latency".into(), odd];
        assert_eq!(rewrite(args.clone()), args);
    }
}
