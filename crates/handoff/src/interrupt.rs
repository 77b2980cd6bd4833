//! Ctrl-C: the first asks the command to stop and to say what it has, the second ends it at once.
//!
//! A command that runs for long asks [`interrupted`] between two steps (or hands [`flag`] to the
//! library that does) and returns what it has so far. What must be put back even if the command is
//! stuck, a sysctl or a child process, is registered with [`clean_up`] for as long as it is changed.
//!
//! [`watch`] catches the signals of every command. One that never asks is ended by the first of them, here: what was
//! changed is put back, a file that is being written is finished, and a line says what is kept. A command with
//! signals of its own says so with [`leave_alone`].

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use handoff_guest::Stopper;
use handoff_lab::interleave::Interleave;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::say;

/// The exit status of a command that was interrupted: 128 + SIGINT, as shells have it.
pub(crate) const EXIT_STATUS: u8 = 130;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The command looks at [`INTERRUPTED`].
static ASKED: AtomicBool = AtomicBool::new(false);
/// The command hears signals itself.
static LEFT_ALONE: AtomicBool = AtomicBool::new(false);
/// Something is on standard output.
static PRINTED: AtomicBool = AtomicBool::new(false);
/// The files that are written as a whole; locked while one is.
static KEPT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static HOOKS: Mutex<Vec<(u64, Hook)>> = Mutex::new(Vec::new());

type Hook = Box<dyn FnOnce() + Send>;

/// Whether somebody asked this process to stop (SIGINT, SIGTERM or SIGHUP).
pub(crate) fn interrupted() -> bool {
    flag().load(Ordering::Relaxed)
}

/// The flag behind [`interrupted`], for a library that watches it.
pub(crate) fn flag() -> &'static AtomicBool {
    ASKED.store(true, Ordering::Relaxed);
    watch();
    &INTERRUPTED
}

/// Rounds without a warm-up, of which the first Ctrl-C leaves those that are done.
pub(crate) fn rounds(rounds: u32) -> Interleave<'static> {
    Interleave { rounds: rounds as usize, warm_up: 0, stop: Some(flag()), ..Interleave::default() }
}

/// Has nothing done at a signal: the command hears signals itself.
pub(crate) fn leave_alone() {
    LEFT_ALONE.store(true, Ordering::Relaxed);
}

/// Notes that something is on standard output.
pub(crate) fn note_printed() {
    PRINTED.store(true, Ordering::Relaxed);
}

/// Writes a file, which the first Ctrl-C lets come to its end; what is written is told of if the command is ended.
pub(crate) fn keeping(file: &Path, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    write()?;
    kept.push(file.to_owned());
    Ok(())
}

/// Does something with a guest, and stops the guest on Ctrl-C.
pub(crate) fn until_interrupted<T>(
    stopper: &Stopper,
    action: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let over = AtomicBool::new(false);
    ASKED.store(true, Ordering::Relaxed);
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
        // The programs that it ran heard the signal, too: what they left undone is no fault of a file or of a guest.
        result.map_err(
            |error| if interrupted() { anyhow::anyhow!("stopped before it was done") } else { error },
        )
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
pub(crate) fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // A shell has what a script starts with `&` ignore SIGINT. Such a command is stopped by `kill -INT` all the same,
        // as perf is: nothing else has it say what it has recorded.
        let heard = [SIGINT, SIGTERM].into_iter().chain((!is_ignored(SIGHUP)).then_some(SIGHUP));
        let Ok(mut signals) = Signals::new(heard) else {
            return; // Without it a signal ends the process at once, which is what the user asked for.
        };
        let listen = move || {
            for _ in signals.forever() {
                if LEFT_ALONE.load(Ordering::Relaxed) {
                    continue;
                }
                // Below the ^C that a terminal shows.
                let start = if io::stderr().is_terminal() { "\n" } else { "" };
                if INTERRUPTED.swap(true, Ordering::Relaxed) || !ASKED.load(Ordering::Relaxed) {
                    run_hooks();
                    say(&format!("{start}{}", last_words(&kept(), PRINTED.load(Ordering::Relaxed))));
                    std::process::exit(i32::from(EXIT_STATUS));
                }
                say(&format!("{start}stopping; press Ctrl-C again to end at once"));
            }
        };
        drop(std::thread::Builder::new().name("signals".into()).spawn(listen));
    });
}

/// Whether who started this process had it ignore a signal, as `nohup` does: then it stays ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal - 1)) != 0
}

/// The files that are written, as soon as the one that is being written is; not longer than for a moment, since the
/// reader of a pipe may take for ever.
fn kept() -> Vec<PathBuf> {
    let end = Instant::now() + Duration::from_secs(2);
    loop {
        match KEPT.try_lock() {
            Ok(kept) => return kept.clone(),
            Err(_) if Instant::now() > end => return Vec::new(),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// What a command that was ended says of what it leaves.
fn last_words(kept: &[PathBuf], has_printed: bool) -> String {
    let files: Vec<String> = kept.iter().take(3).map(|file| file.display().to_string()).collect();
    match kept.len() {
        0 if has_printed => "stopped; what is printed above is all there is".to_owned(),
        0 => "stopped; nothing was kept".to_owned(),
        1..=3 => format!("stopped; kept: {}", files.join(", ")),
        count => format!("stopped; kept: {} and {} more", files.join(", "), count - files.len()),
    }
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
    fn what_is_kept_is_said() {
        let files: Vec<PathBuf> = ["a", "b", "c", "d"].map(PathBuf::from).into();
        assert_eq!(last_words(&[], false), "stopped; nothing was kept");
        assert_eq!(last_words(&[], true), "stopped; what is printed above is all there is");
        assert_eq!(last_words(&files[..2], true), "stopped; kept: a, b");
        assert_eq!(last_words(&files, false), "stopped; kept: a, b, c and 1 more");
    }

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
