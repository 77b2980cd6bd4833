//! Ctrl-C: the first asks the command to stop and to say what it has, the second ends it at once.
//!
//! A command that runs for long asks [`interrupted`] between two steps (or hands [`flag`] to the
//! library that does) and returns what it has so far. What must be put back even if the command is
//! stuck, a sysctl or a child process, is registered with [`clean_up`] for as long as it is changed.
//!
//! Nothing is caught until one of these is called for the first time: a command that changes nothing
//! dies of a signal as any program does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use handoff_guest::Stopper;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The exit status of a command that was interrupted: 128 + SIGINT, as shells have it.
pub(crate) const EXIT_STATUS: u8 = 130;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static HOOKS: Mutex<Vec<(u64, Hook)>> = Mutex::new(Vec::new());

type Hook = Box<dyn FnOnce() + Send>;

/// Whether somebody asked this process to stop (SIGINT, SIGTERM or SIGHUP).
pub(crate) fn interrupted() -> bool {
    flag().load(Ordering::Relaxed)
}

/// The flag behind [`interrupted`], for a library that watches it.
pub(crate) fn flag() -> &'static AtomicBool {
    watch();
    &INTERRUPTED
}

/// Does something with a guest, and stops the guest on Ctrl-C.
pub(crate) fn until_interrupted<T>(
    stopper: &Stopper,
    action: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let over = AtomicBool::new(false);
    let _hook = clean_up({
        let stopper = stopper.clone();
        move || stopper.stop()
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if interrupted() {
                    stopper.stop();
                    return;
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
        });
        let result = action();
        over.store(true, Ordering::Relaxed);
        result
    })
}

/// Whether a signal was seen, without starting to watch for one.
pub(crate) fn was_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Runs `hook` if the process is told a second time to stop while the result is alive.
///
/// In every other case the caller puts things back itself, as its own destructors do; dropping the
/// result takes the hook off.
pub(crate) fn clean_up(hook: impl FnOnce() + Send + 'static) -> CleanUp {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    watch();
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    hooks().push((id, Box::new(hook)));
    CleanUp { id }
}

/// A hook that waits for an abrupt end: see [`clean_up`].
#[must_use = "the hook is taken off when this is dropped"]
#[derive(Debug)]
pub(crate) struct CleanUp {
    id: u64,
}

impl Drop for CleanUp {
    fn drop(&mut self) {
        hooks().retain(|(id, _)| *id != self.id);
    }
}

fn hooks() -> std::sync::MutexGuard<'static, Vec<(u64, Hook)>> {
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that hears signals, once. Hooks run on it, not in a signal handler, so they may
/// do whatever a thread may do.
fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
            return; // Without it a signal ends the process at once, which is what the user asked for.
        };
        let listen = move || {
            for _ in signals.forever() {
                if INTERRUPTED.swap(true, Ordering::Relaxed) {
                    run_hooks();
                    std::process::exit(i32::from(EXIT_STATUS));
                }
                eprintln!("\nstopping; press Ctrl-C again to end at once");
            }
        };
        drop(std::thread::Builder::new().name("signals".into()).spawn(listen));
    });
}

/// The newest first, as destructors would.
fn run_hooks() {
    let hooks = std::mem::take(&mut *hooks());
    for (_, hook) in hooks.into_iter().rev() {
        hook();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, PoisonError};

    /// Hooks are one list for the process: one test at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_dropped_hook_does_not_run_and_others_run_newest_first() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let ran = Arc::new(Mutex::new(Vec::new()));
        let record = |name: &'static str| {
            let ran = Arc::clone(&ran);
            clean_up(move || ran.lock().unwrap().push(name))
        };
        let _first = record("first");
        drop(record("gone"));
        let _second = record("second");
        run_hooks();
        assert_eq!(*ran.lock().unwrap(), ["second", "first"]);
        run_hooks();
        assert_eq!(ran.lock().unwrap().len(), 2, "a hook runs once");
    }
}
