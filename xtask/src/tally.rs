//! Counting tests: from nextest's report, from what other test programs print, and from the log of what was
//! skipped.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::junit::Case;

/// Why a function is ignored that is no test: another test starts it as a process of its own.
const OF_ANOTHER_TEST: &str = "a process of another test";

/// How many lines about failures are printed last, all together.
const LINES: usize = 72;
/// A failure gets as many at least.
const LEAST: usize = 8;

/// How many tests passed, failed and were skipped. Its `Display` is the closing line of a run.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Tally {
    passed: u64,
    failed: Vec<Failure>,
    skipped: BTreeMap<String, String>,
    /// Tests that failed first and passed then, and why they failed.
    again: BTreeMap<String, String>,
    /// The step that Ctrl-C ended, if one.
    interrupted: Option<String>,
    /// How long each test took, where that is known.
    seconds: Vec<(String, f64)>,
}

/// A test that failed, and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    name: String,
    output: String,
}

impl Tally {
    /// Takes in a line of a test program's standard output.
    pub(crate) fn see(&mut self, line: &str) {
        if let Some(passed) = passed_of_result(line) {
            self.passed += passed;
        } else if let Some(rest) = line.strip_prefix("test ") {
            if let Some(name) = rest.strip_suffix(" ... FAILED") {
                self.fail(name, "");
            } else if let Some((name, reason)) = rest.split_once(" ... ignored") {
                let reason = reason.trim_start_matches([',', ' ']);
                if reason == OF_ANOTHER_TEST {
                    return;
                }
                let reason = if reason.is_empty() { "ignored in the source" } else { reason };
                self.skipped.insert(name.to_owned(), reason.to_owned());
            }
        }
    }

    /// Takes in what nextest says of the tests that it ran.
    pub(crate) fn take(&mut self, cases: Vec<Case>) {
        for case in cases {
            if case.failed {
                self.fail(&case.name, &format!("{}{}\n", case.output, case.why));
            } else {
                self.passed += 1;
                if case.tries_before > 0 {
                    let why = telling(&case.why).into_iter().take(2).collect::<Vec<_>>().join(" ");
                    self.again.insert(case.name.clone(), format!("try {}: {why}", case.tries_before + 1));
                }
            }
            self.seconds.push((case.name, case.seconds));
        }
    }

    /// Takes in the end of a step that ran tests, with the last that it printed: a failure that no test is
    /// named for counts as one.
    pub(crate) fn finish(&mut self, step: &str, succeeded: bool, failed_before: usize, said: &str) {
        if !succeeded && self.failed.len() == failed_before {
            self.fail(&format!("{step}, without naming a test"), said);
        } else if let Some(last) =
            self.failed[failed_before..].last_mut().filter(|last| last.output.is_empty())
        {
            last.output = said.to_owned();
        }
    }

    /// Ctrl-C ended this step: what it did not come to is no failure, and the whole no success.
    pub(crate) fn interrupt(&mut self, step: &str) {
        self.interrupted = Some(step.to_owned());
    }

    fn fail(&mut self, name: &str, output: &str) {
        self.failed.push(Failure { name: name.to_owned(), output: output.to_owned() });
    }

    /// Takes in the log that `handoff-testkit` writes: those tests returned early and were counted as
    /// passed by the test program. `may_lack` says whether a program may be missing here.
    pub(crate) fn read_skips(&mut self, log: &Path, may_lack: impl Fn(&str) -> bool) -> Result<()> {
        for (test, reason) in records(log)? {
            let missing = reason.strip_prefix("needs `").and_then(|rest| rest.strip_suffix(NOT_INSTALLED));
            if missing.is_some_and(|program| !may_lack(program)) {
                self.fail(&test, &format!("{reason}, although it should have been installed"));
                self.passed = self.passed.saturating_sub(1);
            } else if self.skipped.insert(test, reason).is_none() {
                self.passed = self.passed.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// How many tests have failed so far.
    pub(crate) fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Whether tests ran and none failed.
    pub(crate) fn is_success(&self) -> bool {
        self.failed.is_empty() && self.passed > 0 && self.interrupted.is_none()
    }

    /// Which tests were skipped, which passed at a later try, and which failed, with the end of what they
    /// printed: few enough lines that the end of a log has them all.
    pub(crate) fn details(&self) -> String {
        let skipped = self.skipped.iter().map(|(name, reason)| format!("skipped: {name}: {reason}\n"));
        let again =
            self.again.iter().map(|(name, why)| format!("passed only when tried again: {name}: {why}\n"));
        let share = (LINES / self.failed.len().max(1)).max(LEAST);
        let failed = self.failed.iter().map(|failure| {
            let lines = telling(&failure.output);
            let shown = &lines[lines.len().saturating_sub(share - 1)..];
            let shown: String = shown.iter().map(|line| format!("    {line}\n")).collect();
            format!("failed: {}\n{shown}", failure.name)
        });
        let interrupted = self.interrupted.iter();
        let interrupted = interrupted.map(|step| {
            format!("interrupted during {step}: what came after was not run, and what ran is over\n")
        });
        skipped.chain(again).chain(failed).chain(interrupted).collect()
    }

    /// The tests that took longest, one a line.
    pub(crate) fn slowest(&self, count: usize) -> String {
        let mut tests: Vec<_> = self.seconds.iter().collect();
        tests.sort_by(|a, b| b.1.total_cmp(&a.1));
        tests.iter().take(count).map(|(name, seconds)| format!("{seconds:>8.1} s  {name}\n")).collect()
    }
}

/// The lines of a test's output that say what happened: no frames of a backtrace, and nothing of the test harness.
fn telling(output: &str) -> Vec<&str> {
    let is_frame = |line: &str| {
        let text = line.trim_start();
        let number = text.split_once(": ").is_some_and(|(number, _)| number.parse::<u16>().is_ok());
        text.len() < line.len() && (number || text.starts_with("at /rustc/") || text.starts_with("at ./"))
    };
    const HARNESS: [&str; 6] = [
        "stack backtrace:",
        "note: Some details",
        "note: run with",
        "running 1 test",
        "failures:",
        "test result:",
    ];
    let is_said = |line: &&str| {
        let text = line.trim();
        !text.is_empty() && !is_frame(line) && !HARNESS.iter().any(|known| text.starts_with(known))
    };
    output.lines().filter(is_said).collect()
}

/// How `handoff-testkit` ends the reason of a skip for want of a program.
const NOT_INSTALLED: &str = "`, which is not installed";

/// The lines of the log that tests append to: a test and a reason each, with a tab between.
fn records(log: &Path) -> Result<BTreeMap<String, String>> {
    let text = match std::fs::read_to_string(log) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", log.display())),
    };
    let mut records = BTreeMap::new();
    for line in text.lines() {
        let Some((test, reason)) = line.split_once('\t') else {
            bail!("{} has a line without a tab: {line:?}", log.display());
        };
        records.insert(test.to_owned(), reason.to_owned());
    }
    Ok(records)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped.len())
    }
}

/// The first number of `test result: ok. 12 passed; 0 failed; ...`.
fn passed_of_result(line: &str) -> Option<u64> {
    let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    counts.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(lines: &str) -> Tally {
        let mut tally = Tally::default();
        lines.lines().for_each(|line| tally.see(line));
        tally
    }

    #[test]
    fn results_of_several_programs_add_up() {
        let tally = tally_of(
            "test a ... ok\n\
             test b ... FAILED\n\
             test result: FAILED. 12 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
             test src/lib.rs - f (line 3) ... ignored\n\
             test g ... ignored, needs a device\n\
             test h::role_main ... ignored, a process of another test\n\
             test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        );
        assert_eq!(tally.to_string(), "15 passed, 1 failed, 2 skipped");
        assert!(!tally.is_success());
        assert_eq!(
            tally.details(),
            "skipped: g: needs a device\nskipped: src/lib.rs - f (line 3): ignored in the source\nfailed: b\n"
        );
    }

    #[test]
    fn a_skip_is_not_a_pass_and_counts_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        std::fs::write(&log, "a::b\tno QEMU\na::c\tnot root\na::b\tno QEMU\n").expect("written");
        let mut tally = tally_of("test result: ok. 5 passed; 0 failed; 0 ignored");
        tally.read_skips(&log, |_| true).expect("it can be read");
        assert_eq!(tally.to_string(), "3 passed, 0 failed, 2 skipped");
        assert_eq!(tally.details(), "skipped: a::b: no QEMU\nskipped: a::c: not root\n");
    }

    #[test]
    fn no_log_means_no_skip_and_a_broken_log_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        assert!(Tally::default().read_skips(&log, |_| true).is_ok());
        std::fs::write(&log, "no tab here\n").expect("written");
        assert!(Tally::default().read_skips(&log, |_| true).is_err());
    }

    #[test]
    fn a_program_that_dies_without_a_word_is_a_failure() {
        let mut tally = tally_of("test result: ok. 5 passed; 0 failed; 0 ignored");
        tally.finish("cargo test", false, 0, "");
        assert_eq!(tally.to_string(), "5 passed, 1 failed, 0 skipped");
        let mut tally = tally_of("test b ... FAILED\ntest result: FAILED. 0 passed; 1 failed");
        tally.finish("cargo test", false, 0, "");
        assert_eq!(tally.failures(), 1);
    }

    #[test]
    fn a_skip_for_want_of_what_was_installed_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let line = |program: &str| format!("{program}\tneeds `{program}`, which is not installed\n");
        std::fs::write(&log, [line("qemu"), line("odd")].concat()).expect("written");
        let mut tally = tally_of("test result: ok. 5 passed; 0 failed; 0 ignored");
        tally.read_skips(&log, |program| program == "odd").expect("it can be read");
        assert_eq!(tally.to_string(), "3 passed, 1 failed, 1 skipped");
    }

    fn case(name: &str, failed: bool, tries_before: usize, why: &str, output: &str) -> Case {
        let (why, output) = (why.into(), output.into());
        Case { name: name.into(), seconds: 1.0, failed, tries_before, why, output }
    }

    #[test]
    fn a_second_try_is_told_and_a_failure_comes_last_with_what_it_printed() {
        let mut tally = Tally::default();
        let long: String = (0..500).map(|line| format!("line {line}\n")).collect();
        tally.take(vec![
            case(
                "a",
                true,
                1,
                "panicked:\n34: 1 is not 2\nstack backtrace:\n   0: rust_begin\n      at ./x.rs",
                &long,
            ),
            case("b", false, 1, "panicked:\nstuck\nstack backtrace:", ""),
            case("c", false, 0, "", ""),
        ]);
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 0 skipped");
        let details = tally.details();
        assert!(details.starts_with("passed only when tried again: b: try 2: panicked: stuck\nfailed: a\n"));
        assert!(details.ends_with("line 499\n    panicked:\n    34: 1 is not 2\n"), "{details}");
        assert!(details.lines().count() < 90, "{details}");
    }

    #[test]
    fn what_was_interrupted_is_no_success_and_says_so() {
        let mut tally = tally_of("test result: ok. 5 passed; 0 failed; 0 ignored");
        assert!(tally.is_success());
        tally.interrupt("cargo nextest");
        assert!(!tally.is_success());
        assert_eq!(tally.to_string(), "5 passed, 0 failed, 0 skipped");
        assert!(tally.details().starts_with("interrupted during cargo nextest:"), "{}", tally.details());
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert!(!Tally::default().is_success());
    }
}
