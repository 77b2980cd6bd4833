//! Counting tests: from what the test programs print, and from the log of what was skipped.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// Why a function is ignored that is no test: another test starts it as a process of its own.
const OF_ANOTHER_TEST: &str = "a process of another test";

/// How many tests passed, failed and were skipped. Its `Display` is the closing line of a run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: Vec<String>,
    skipped: BTreeMap<String, String>,
}

impl Tally {
    /// Takes in a line of a test program's standard output.
    pub(crate) fn see(&mut self, line: &str) {
        if let Some(passed) = passed_of_result(line) {
            self.passed += passed;
        } else if let Some(rest) = line.strip_prefix("test ") {
            if let Some(name) = rest.strip_suffix(" ... FAILED") {
                self.failed.push(name.to_owned());
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

    /// Takes in the end of a step that ran tests: a failure that no test is named for counts as one.
    pub(crate) fn finish(&mut self, step: &str, succeeded: bool, failed_before: usize) {
        if !succeeded && self.failed.len() == failed_before {
            self.failed.push(format!("{step} (it failed without naming a test; see above)"));
        }
    }

    /// Takes in the log that `handoff-testkit` writes: those tests returned early and were counted as
    /// passed by the test program.
    pub(crate) fn read_skips(&mut self, log: &Path) -> Result<()> {
        let text = match std::fs::read_to_string(log) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", log.display())),
        };
        for line in text.lines() {
            let Some((test, reason)) = line.split_once('\t') else {
                bail!("{} has a line without a tab: {line:?}", log.display());
            };
            if self.skipped.insert(test.to_owned(), reason.to_owned()).is_none() {
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
        self.failed.is_empty() && self.passed > 0
    }

    /// Which tests failed, and which were skipped and why.
    pub(crate) fn details(&self) -> String {
        let failed = self.failed.iter().map(|name| format!("failed: {name}\n"));
        let skipped = self.skipped.iter().map(|(name, reason)| format!("skipped: {name}: {reason}\n"));
        failed.chain(skipped).collect()
    }
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
            "failed: b\nskipped: g: needs a device\nskipped: src/lib.rs - f (line 3): ignored in the source\n"
        );
    }

    #[test]
    fn a_skip_is_not_a_pass_and_counts_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        std::fs::write(&log, "a::b\tno QEMU\na::c\tnot root\na::b\tno QEMU\n").expect("written");
        let mut tally = tally_of("test result: ok. 5 passed; 0 failed; 0 ignored");
        tally.read_skips(&log).expect("it can be read");
        assert_eq!(tally.to_string(), "3 passed, 0 failed, 2 skipped");
        assert_eq!(tally.details(), "skipped: a::b: no QEMU\nskipped: a::c: not root\n");
    }

    #[test]
    fn no_log_means_no_skip_and_a_broken_log_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        assert!(Tally::default().read_skips(&log).is_ok());
        std::fs::write(&log, "no tab here\n").expect("written");
        assert!(Tally::default().read_skips(&log).is_err());
    }

    #[test]
    fn a_program_that_dies_without_a_word_is_a_failure() {
        let mut tally = tally_of("test result: ok. 5 passed; 0 failed; 0 ignored");
        tally.finish("cargo test", false, 0);
        assert_eq!(tally.to_string(), "5 passed, 1 failed, 0 skipped");
        let mut tally = tally_of("test b ... FAILED\ntest result: FAILED. 0 passed; 1 failed");
        tally.finish("cargo test", false, 0);
        assert_eq!(tally.failures(), 1);
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert!(!Tally::default().is_success());
    }
}
