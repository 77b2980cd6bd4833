//! How a test says that this machine cannot run it.
//!
//! A test that needs root, two CPUs, QEMU or a browser must not fail where those lack, and must not
//! count as passed either. It asks for what it needs and leaves when it is not there:
//!
//! ```no_run
//! use handoff_testkit::{require, require_root, require_tool};
//!
//! #[test]
//! fn guest_boots() {
//!     require!(require_root());
//!     let qemu = require!(require_tool("qemu-system-x86_64"));
//!     // ... a test that may take both for granted
//! #   drop(qemu);
//! }
//! ```
//!
//! Each skip becomes one record. `cargo xtask test` names a file in `HANDOFF_SKIP_LOG` and counts
//! the records there as skipped, not as passed; without it they are printed to standard error as
//! `handoff-test-skipped: <test>: <reason>`. With `HANDOFF_DENY_SKIPS` set (which
//! `cargo xtask test --deny-skips` does) a skip is a failure: use it on a machine that is known to
//! have everything.
//!
//! This crate depends on nothing, so that it can be a development dependency of each of the others.

pub mod book;
pub mod browser;
mod library;
mod need;
pub mod net;
pub mod postgres;
mod program;
pub mod slurm;
pub mod sshd;

pub use library::built_library;
pub use need::{
    require_cpus, require_file, require_guest, require_guest_of, require_realtime, require_root,
    require_tool, require_user_namespaces,
};

pub use program::require_static_handoff;

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// Names the file to which skips are appended, one `test<TAB>reason` line each.
pub const SKIP_LOG: &str = "HANDOFF_SKIP_LOG";

/// When set to anything but `0`, a skip is a failure.
pub const DENY_SKIPS: &str = "HANDOFF_DENY_SKIPS";

/// When set, tests that repeat something do it less often.
pub const QUICK: &str = "HANDOFF_TEST_QUICK";

/// How often a test repeats something: `all` times, or `quick` times in a quick run.
#[must_use]
pub fn repeats<T>(all: T, quick: T) -> T {
    if std::env::var_os(QUICK).is_some() { quick } else { all }
}

/// Starts each skip that is printed because [`SKIP_LOG`] is not set.
pub const SKIP_PREFIX: &str = "handoff-test-skipped: ";

/// Records that `test` did not run here, and why. The test must return right after it.
///
/// Prefer [`require!`], which finds the name of the test and returns by itself.
///
/// # Panics
///
/// If [`DENY_SKIPS`] is set, or if the file that [`SKIP_LOG`] names cannot be written: a skip that
/// is lost would count as a pass.
pub fn skip(test: &str, reason: &str) {
    let deny = std::env::var_os(DENY_SKIPS).is_some_and(|value| value != "0");
    // Each package has a test program `it`; cargo and cargo-nextest say whose this is.
    let package = std::env::var("CARGO_PKG_NAME").map_or(String::new(), |package| package + " ");
    record(&format!("{package}{test}"), reason, std::env::var_os(SKIP_LOG).as_deref(), deny);
}

/// [`skip`] with the environment as arguments, so that it can be tested without changing it.
fn record(test: &str, reason: &str, log: Option<&OsStr>, deny: bool) {
    let (test, reason) = (one_line(test), one_line(reason));
    assert!(!deny, "{test} may not be skipped here ({DENY_SKIPS} is set), but: {reason}");
    match log {
        Some(path) => append(Path::new(path), &test, &reason)
            .unwrap_or_else(|error| panic!("cannot record a skip in {}: {error}", path.display())),
        None => eprintln!("{SKIP_PREFIX}{test}: {reason}"),
    }
}

/// Appends in one `write`, so that tests of several processes do not cut each other's lines.
fn append(path: &Path, test: &str, reason: &str) -> io::Result<()> {
    let line = format!("{test}\t{reason}\n");
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

/// The record is a line with one tab: whatever would break that becomes a space.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The path of the function that this is written in, such as `handoff_guest::guest_boots`.
#[macro_export]
macro_rules! test_name {
    () => {{
        fn here() {}
        $crate::enclosing(std::any::type_name_of_val(&here))
    }};
}

/// The function around the one that `type_name` names. For [`test_name!`] only.
#[doc(hidden)]
#[must_use]
pub fn enclosing(type_name: &'static str) -> &'static str {
    let mut path = type_name;
    for suffix in ["::here", "::{{closure}}"] {
        path = path.strip_suffix(suffix).unwrap_or(path);
    }
    path
}

/// Gives what was required, or records a skip of the enclosing test and returns from it.
///
/// Takes any `Result<T, E>` whose error displays as a reason, and is an expression of type `T`.
#[macro_export]
macro_rules! require {
    ($need:expr $(,)?) => {
        match $need {
            Ok(found) => found,
            Err(reason) => {
                $crate::skip($crate::test_name!(), &reason.to_string());
                return;
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A file of its own for each test, since there is no `tempfile` here.
    struct Log(std::path::PathBuf);

    impl Log {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let unique = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("handoff-testkit-{}-{unique}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn text(&self) -> String {
            std::fs::read_to_string(&self.0).expect("the log was written")
        }
    }

    impl Drop for Log {
        fn drop(&mut self) {
            drop(std::fs::remove_file(&self.0));
        }
    }

    #[test]
    fn each_skip_is_one_line_of_two_fields() {
        let log = Log::new();
        record("a::b", "no\tQEMU\nhere", Some(log.0.as_os_str()), false);
        record("c", "not root", Some(log.0.as_os_str()), false);
        assert_eq!(log.text(), "a::b\tno QEMU here\nc\tnot root\n");
    }

    #[test]
    fn many_writers_do_not_cut_lines() {
        let log = Log::new();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let path = log.0.as_os_str();
                scope.spawn(move || {
                    for _ in 0..50 {
                        record(&format!("writer{writer}"), "a reason", Some(path), false);
                    }
                });
            }
        });
        let text = log.text();
        assert_eq!(text.lines().count(), 200);
        assert!(text.lines().all(|line| line.starts_with("writer") && line.ends_with("\ta reason")));
    }

    #[test]
    #[should_panic(expected = "may not be skipped here")]
    fn a_denied_skip_fails() {
        record("a", "b", None, true);
    }

    #[test]
    #[should_panic(expected = "cannot record a skip")]
    fn a_lost_skip_fails() {
        record("a", "b", Some(OsStr::new("/proc/no/such/folder")), false);
    }

    #[test]
    fn the_name_is_that_of_the_test() {
        let expected = "handoff_testkit::tests::the_name_is_that_of_the_test";
        assert_eq!(test_name!(), expected);
        let in_closure = || test_name!();
        assert_eq!(in_closure(), expected);
    }

    #[test]
    fn require_gives_what_was_found() {
        let value: u32 = require!(Ok::<u32, String>(7));
        assert_eq!(value, 7);
    }
}
