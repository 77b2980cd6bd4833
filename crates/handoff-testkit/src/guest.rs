//! Tests whose guest may get stuck for reasons of its own.

use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::path::Path;

/// Names the file to which further attempts are appended, one `place<TAB>reason` line each.
pub const AGAIN_LOG: &str = "HANDOFF_AGAIN_LOG";

/// How the error of a guest begins that answers nothing, as text and as Rust prints it.
const STUCK: [&str; 2] = ["the guest hangs", "Hang {"];
/// So often a test is run.
const MOST: usize = 3;

/// Runs a test, and runs it again if its guest got stuck.
///
/// The kernel of an emulated guest with more than one CPU locks up at times, on any version of it. That
/// is the emulator's, and says nothing of what the test is about. Each further attempt is a line in the file that
/// [`AGAIN_LOG`] names, which `cargo xtask test` reads: it names those tests in its closing lines.
///
/// # Panics
///
/// As the test does; if the guest got stuck, then in its third attempt.
#[track_caller]
pub fn again_if_stuck(test: impl Fn()) {
    let place = Location::caller();
    for attempt in 1.. {
        let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        let said = panic.downcast_ref::<String>().map_or("", String::as_str);
        if attempt == MOST || !STUCK.iter().any(|stuck| said.contains(stuck)) {
            resume_unwind(panic);
        }
        let why = format!("the guest got stuck in attempt {attempt} of {MOST}");
        eprintln!("{place}: {why}");
        if let Some(log) = std::env::var_os(AGAIN_LOG) {
            let told = crate::append(Path::new(&log), &place.to_string(), &why);
            told.unwrap_or_else(|error| panic!("cannot record an attempt in {}: {error}", log.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn attempts(fails: impl Fn(usize)) -> (usize, bool) {
        let count = Cell::new(0);
        let test = || {
            count.set(count.get() + 1);
            fails(count.get());
        };
        let passed = catch_unwind(AssertUnwindSafe(|| again_if_stuck(test))).is_ok();
        (count.get(), passed)
    }

    #[test]
    fn a_test_is_run_again_for_a_stuck_guest_and_for_nothing_else() {
        assert_eq!(attempts(|_| ()), (1, true));
        for stuck in STUCK {
            assert_eq!(attempts(|attempt| assert!(attempt > 2, "error: {stuck}: `true`")), (3, true));
            assert_eq!(attempts(|attempt| panic!("error: {stuck} ({attempt})")), (3, false));
        }
        assert_eq!(attempts(|attempt| panic!("another reason, {attempt}")), (1, false));
        assert_eq!(attempts(|_| panic!("another reason")), (1, false));
    }
}
