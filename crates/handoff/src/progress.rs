//! What a long command is doing, on standard error: a bar on a terminal; elsewhere, as in the log of a CI job, a plain
//! line every ten seconds. `--quiet` turns both off.

use std::io::{IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use handoff_lab::interleave::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two plain lines.
const PERIOD: Duration = Duration::from_secs(10);

static QUIET: AtomicBool = AtomicBool::new(false);

/// Turns progress off for this process.
pub(crate) fn set_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether progress is off.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A bar whose length is known before or while it runs, in indicatif's template.
pub(crate) fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    start(ProgressBar::with_draw_target(length, target()).with_style(style))
}

/// Shows how far subjects in turns are, as `measure` tells of each run.
pub(crate) fn of_turns<T>(measure: impl FnOnce(&mut dyn FnMut(Progress<'_>)) -> T) -> T {
    let bar = bar(None, "{bar:30} {percent:>3}%  {eta:>4} left  {msg}");
    let measured = measure(&mut |progress| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.subject.to_owned());
    });
    bar.finish_and_clear();
    measured
}

/// Says that something goes on whose end is not known.
pub(crate) fn spinner(what: String) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed}  {msg}");
    let bar = ProgressBar::with_draw_target(None, target());
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())).with_message(what);
    // Seldom, because what is measured meanwhile is latency.
    bar.enable_steady_tick(Duration::from_secs(1));
    start(bar)
}

fn target() -> ProgressDrawTarget {
    if is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

fn start(bar: ProgressBar) -> ProgressBar {
    if !is_quiet() && !std::io::stderr().is_terminal() {
        tell_every(PERIOD, &bar, std::io::stderr());
    }
    bar
}

/// Writes a line about the bar after each period, until it is finished or dropped.
fn tell_every(period: Duration, bar: &ProgressBar, mut to: impl Write + Send + 'static) {
    let bar = bar.downgrade();
    let begin = Instant::now();
    let tell = move || {
        loop {
            std::thread::sleep(period);
            match bar.upgrade() {
                Some(bar) if !bar.is_finished() => {
                    if writeln!(to, "{}", line(&bar, begin.elapsed())).is_err() {
                        return; // Nobody reads it.
                    }
                }
                _ => return,
            }
        }
    };
    // Without the thread there is no progress, which nothing depends on.
    drop(std::thread::Builder::new().name("progress".into()).spawn(tell));
}

/// `12 of 40, 30 s: round 12, arm B, at most 70 s left`.
fn line(bar: &ProgressBar, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let done = match bar.length() {
        Some(length) if length > 0 => format!("{} of {length}, {seconds} s", bar.position()),
        _ => format!("{seconds} s"),
    };
    let words: Vec<String> =
        [bar.prefix(), bar.message()].into_iter().filter(|text| !text.is_empty()).collect();
    if words.is_empty() { done } else { format!("{done}: {}", words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Gives each line that is written to a channel.
    struct Lines(mpsc::Sender<String>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(String::from_utf8_lossy(bytes).into_owned()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_how_far_it_is_and_what_it_does() {
        let bar = ProgressBar::hidden();
        assert_eq!(line(&bar, Duration::from_secs(20)), "20 s");
        bar.set_length(40);
        bar.set_position(12);
        bar.set_message("at most 70 s left");
        assert_eq!(line(&bar, Duration::from_secs(30)), "12 of 40, 30 s: at most 70 s left");
        bar.set_prefix("round 12, arm B");
        assert_eq!(line(&bar, Duration::from_secs(30)), "12 of 40, 30 s: round 12, arm B, at most 70 s left");
    }

    #[test]
    fn lines_come_until_the_bar_is_finished() {
        let (sender, lines) = mpsc::channel();
        let bar = ProgressBar::hidden().with_message("working");
        tell_every(Duration::from_millis(1), &bar, Lines(sender));
        let text = lines.recv_timeout(Duration::from_secs(60)).expect("a line");
        assert!(text.contains(" s"), "{text}");
        bar.finish_and_clear();
        // The thread ends, and with it the sender.
        while lines.recv_timeout(Duration::from_secs(60)).is_ok() {}
        assert_eq!(lines.recv_timeout(Duration::ZERO), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
