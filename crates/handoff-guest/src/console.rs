//! Reads a kernel's console: keeps its lines and recognises panics, oopses, lock-ups and stalls.

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

/// Lines of the console that are kept.
const KEPT_LINES: usize = 20_000;
/// A line longer than this is cut: whoever writes such is no kernel.
const LONGEST_LINE: usize = 4096;
/// How far behind its headline an incident's registers and call trace may lie, in lines.
const INCIDENT_SPAN: usize = 90;
/// Functions of a call trace that are kept.
const TRACE_DEPTH: usize = 16;
/// Incidents that are kept; a kernel in a loop of warnings brings no news after these.
const MOST_INCIDENTS: usize = 64;

/// What kind of trouble a kernel reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum IncidentKind {
    /// The kernel stopped for good.
    Panic,
    /// A bug killed the task that ran into it; the kernel went on, but is not to be trusted.
    Oops,
    /// A CPU did not schedule or take interrupts for many seconds.
    LockUp,
    /// A CPU or task held up read-copy-update for many seconds.
    RcuStall,
    /// A task was blocked for minutes.
    HungTask,
    /// Memory ran out and a process was killed.
    OutOfMemory,
    /// A check in the kernel failed (`WARN_ON`).
    Warning,
}

impl IncidentKind {
    /// What it is called in messages.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Oops => "oops",
            Self::LockUp => "lock-up",
            Self::RcuStall => "RCU stall",
            Self::HungTask => "hung task",
            Self::OutOfMemory => "out of memory",
            Self::Warning => "warning",
        }
    }
}

/// Trouble that a kernel reported on its console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Incident {
    pub kind: IncidentKind,
    /// The kernel's line that says so, without its time.
    pub headline: String,
    /// The function and offset where it happened, if the kernel said.
    pub location: Option<String>,
    /// The CPU, process id and name, if the kernel said.
    pub task: Option<String>,
    /// The functions that led there, innermost first.
    pub trace: Vec<String>,
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.label(), self.headline)?;
        if let Some(location) = &self.location {
            write!(f, "\n  at {location}")?;
        }
        if let Some(task) = &self.task {
            write!(f, "\n  {task}")?;
        }
        if !self.trace.is_empty() {
            write!(f, "\n  called by {}", self.trace.join(" < "))?;
        }
        Ok(())
    }
}

/// The console's lines so far, and what they report.
#[derive(Debug, Default)]
pub struct ConsoleLog {
    lines: VecDeque<String>,
    /// Lines that were dropped from the front.
    dropped: usize,
    partial: Vec<u8>,
    incidents: Vec<Incident>,
    /// Lines in which the last incident's details may still come.
    open_for: usize,
}

impl ConsoleLog {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what came from the console, whole lines or not; gives the lines that it completed.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut completed = Vec::new();
        for byte in bytes {
            if *byte == b'\n' {
                completed.extend(self.complete());
            } else if self.partial.len() < LONGEST_LINE {
                self.partial.push(*byte);
            }
        }
        completed
    }

    /// Ends the last line: nothing more will come.
    pub fn finish(&mut self) -> Option<String> {
        if self.partial.is_empty() { None } else { self.complete() }
    }

    /// The kept lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// The last lines, oldest first.
    pub fn tail(&self, count: usize) -> Vec<String> {
        self.lines.iter().skip(self.lines.len().saturating_sub(count)).cloned().collect()
    }

    /// How many lines came, those that are no longer kept included.
    pub fn seen(&self) -> usize {
        self.dropped + self.lines.len()
    }

    /// What was reported so far, oldest first.
    pub fn incidents(&self) -> &[Incident] {
        &self.incidents
    }

    /// How often a CPU was reported that got nowhere for many seconds.
    pub(super) fn lock_ups(&self) -> usize {
        self.incidents.iter().filter(|incident| incident.kind == IncidentKind::LockUp).count()
    }

    /// The panic, if there was one, with the place of the oops that led to it.
    pub fn panic(&self) -> Option<Incident> {
        let index = self.incidents.iter().position(|incident| incident.kind == IncidentKind::Panic)?;
        let mut panic = self.incidents[index].clone();
        let cause = self.incidents[..index].iter().rfind(|before| before.kind == IncidentKind::Oops);
        if let Some(cause) = cause
            && panic.location.is_none()
        {
            panic.headline = format!("{} ({})", panic.headline, cause.headline);
            panic.location = cause.location.clone();
            panic.task = cause.task.clone().or(panic.task);
            panic.trace = cause.trace.clone();
        }
        Some(panic)
    }

    fn complete(&mut self) -> Option<String> {
        let line = clean(&std::mem::take(&mut self.partial));
        if line.is_empty() {
            return None;
        }
        self.examine(&line);
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line.clone());
        Some(line)
    }

    fn examine(&mut self, line: &str) {
        let message = without_time(line);
        if let Some(kind) = recognise(message) {
            // The line "Oops: 0002 [#1] SMP" belongs to the "BUG:" before it.
            let repeats = kind == IncidentKind::Oops
                && self.open_for > 0
                && self.incidents.last().is_some_and(|last| last.kind == kind);
            if !repeats {
                if self.incidents.len() < MOST_INCIDENTS || kind == IncidentKind::Panic {
                    self.incidents.push(Incident {
                        kind,
                        headline: message.to_owned(),
                        location: None,
                        task: None,
                        trace: Vec::new(),
                    });
                    self.open_for = INCIDENT_SPAN;
                }
                return;
            }
        }
        if self.open_for == 0 {
            return;
        }
        self.open_for -= 1;
        if message.contains("---[ end ") {
            self.open_for = 0;
            return;
        }
        let Some(incident) = self.incidents.last_mut() else { return };
        if incident.task.is_none() && message.contains(" Comm: ") {
            incident.task = Some(message.trim().to_owned());
        } else if incident.location.is_none()
            && let Some(location) = location(message)
        {
            incident.location = Some(location.to_owned());
        } else if incident.trace.len() < TRACE_DEPTH
            && let Some(function) = traced_function(message)
        {
            incident.trace.push(function.to_owned());
        }
    }
}

/// Which trouble a line of the kernel's log announces.
fn recognise(message: &str) -> Option<IncidentKind> {
    use IncidentKind::{HungTask, LockUp, Oops, OutOfMemory, Panic, RcuStall, Warning};
    let starts = |prefix: &str| message.starts_with(prefix);
    let has = |part: &str| message.contains(part);
    if starts("Kernel panic - not syncing") {
        // "---[ end Kernel panic" repeats it and begins differently.
        Some(Panic)
    } else if has("soft lockup - CPU#") || has("Watchdog detected hard LOCKUP") {
        Some(LockUp)
    } else if starts("rcu: INFO:")
        && (has("detected stall") || has("detected expedited stall") || has("self-detected"))
    {
        Some(RcuStall)
    } else if starts("INFO: task ") && has("blocked for more than") {
        Some(HungTask)
    } else if starts("Out of memory: Killed process") || starts("Out of memory: Kill process") {
        Some(OutOfMemory)
    } else if starts("BUG: ")
        || starts("kernel BUG at ")
        || starts("Oops")
        || starts("Internal error: ")
        || starts("general protection fault")
        || starts("Unable to handle kernel ")
        || starts("invalid opcode: ")
        || starts("divide error: ")
    {
        Some(Oops)
    } else if starts("WARNING: CPU: ") {
        Some(Warning)
    } else {
        None
    }
}

/// The function in a line such as `RIP: 0010:wake_wide+0x10/0x60` or `pc : wake_wide+0x10/0x60`.
fn location(message: &str) -> Option<&str> {
    let rest = message
        .strip_prefix("RIP: 0010:")
        .or_else(|| message.strip_prefix("pc : "))
        .or_else(|| message.strip_prefix("PC is at "))?;
    rest.split_whitespace().next().filter(|place| is_function(place))
}

/// The function in a line of a call trace, such as `  do_syscall_64+0x3b/0x90`.
fn traced_function(message: &str) -> Option<&str> {
    let mut words = message.split_whitespace();
    let place = words.next()?;
    // What follows can only be the module's name; anything else is another kind of line.
    let rest = words.next();
    let plausible = rest.is_none_or(|word| word.starts_with('[') || word.starts_with('('));
    (plausible && is_function(place)).then(|| place.split_once('+').map_or(place, |(name, _)| name))
}

/// Whether a word is `function+0xOFFSET/0xSIZE`.
fn is_function(word: &str) -> bool {
    word.split_once("+0x").is_some_and(|(name, rest)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c))
            && rest.split_once("/0x").is_some_and(|(offset, size)| {
                [offset, size]
                    .iter()
                    .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_hexdigit()))
            })
    })
}

/// A line without terminal sequences and control characters.
fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // "ESC [ parameters letter", or "ESC letter".
            '\u{1b}' if chars.next() == Some('[') => {
                while chars.next_if(|c| !c.is_ascii_alphabetic()).is_some() {}
                chars.next();
            }
            '\t' => line.push(' '),
            c if c.is_control() => {}
            c => line.push(c),
        }
    }
    line.trim_end().to_owned()
}

/// A kernel's message without `[    1.234567]` and, where the kernel says it, `[    T1]`.
fn without_time(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..2 {
        let inside = rest.strip_prefix('[').and_then(|after| after.split_once(']'));
        match inside {
            Some((time, after)) if is_stamp(time.trim()) => rest = after.strip_prefix(' ').unwrap_or(after),
            _ => break,
        }
    }
    rest.trim_end()
}

fn is_stamp(text: &str) -> bool {
    let digits = text.strip_prefix(['T', 'C']).unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log(text: &str) -> ConsoleLog {
        let mut log = ConsoleLog::new();
        log.push(text.as_bytes());
        log.finish();
        log
    }

    const OOPS_AND_PANIC: &str = "\
[    5.100000] BUG: kernel NULL pointer dereference, address: 0000000000000000\r
[    5.100100] #PF: supervisor write access in kernel mode\r
[    5.100200] Oops: 0002 [#1] PREEMPT SMP NOPTI\r
[    5.100300] CPU: 1 PID: 77 Comm: sh Not tainted 6.1.0-56-amd64 #1  Debian 6.1.192-2\r
[    5.100400] RIP: 0010:sysrq_handle_crash+0x16/0x20\r
[    5.100500] Call Trace:\r
[    5.100600]  <TASK>\r
[    5.100700]  __handle_sysrq.cold+0x43/0x113\r
[    5.100750]  ? srso_return_thunk+0x5/0x10\r
[    5.100800]  write_sysrq_trigger+0x24/0x40 [mod]\r
[    5.100900]  </TASK>\r
[    5.101000] ---[ end trace 0000000000000000 ]---\r
[    5.102000] Kernel panic - not syncing: Fatal exception\r
[    5.103000] ---[ end Kernel panic - not syncing: Fatal exception ]---\r
";

    #[test]
    fn a_panic_is_told_with_the_oops_that_led_to_it() {
        let log = log(OOPS_AND_PANIC);
        let kinds: Vec<IncidentKind> = log.incidents().iter().map(|incident| incident.kind).collect();
        assert_eq!(kinds, [IncidentKind::Oops, IncidentKind::Panic]);
        let panic = log.panic().expect("a panic");
        assert_eq!(panic.location.as_deref(), Some("sysrq_handle_crash+0x16/0x20"));
        assert_eq!(panic.trace, ["__handle_sysrq.cold", "write_sysrq_trigger"]);
        let text = panic.to_string();
        assert!(text.contains("Fatal exception (BUG: kernel NULL pointer"), "{text}");
        assert!(text.contains("Comm: sh"), "{text}");
    }

    #[test]
    fn a_panic_without_an_oops_has_its_own_trace() {
        let log = log("[    1.0][    T1] Kernel panic - not syncing: VFS: Unable to mount root fs\n\
            [    1.0][    T1] CPU: 0 PID: 1 Comm: swapper/0 Not tainted 6.1\n\
            [    1.0][    T1]  dump_stack_lvl+0x44/0x5c\n");
        let panic = log.panic().expect("a panic");
        assert_eq!(panic.headline, "Kernel panic - not syncing: VFS: Unable to mount root fs");
        assert_eq!(panic.trace, ["dump_stack_lvl"]);
    }

    #[test]
    fn each_kind_is_recognised() {
        use IncidentKind::{HungTask, LockUp, Oops, OutOfMemory, RcuStall, Warning};
        let cases = [
            ("watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [sh:55]", LockUp),
            ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 1", LockUp),
            ("rcu: INFO: rcu_preempt self-detected stall on CPU", RcuStall),
            ("rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", RcuStall),
            ("INFO: task kworker/0:1:9 blocked for more than 120 seconds.", HungTask),
            ("Out of memory: Killed process 99 (hog) total-vm:1kB", OutOfMemory),
            ("general protection fault, probably for non-canonical address 0x1: 0000 [#1]", Oops),
            ("Unable to handle kernel NULL pointer dereference at virtual address 0", Oops),
            ("kernel BUG at kernel/sched/fair.c:1!", Oops),
            ("BUG: scheduling while atomic: swapper/0/0/0x2", Oops),
            ("WARNING: CPU: 0 PID: 1 at kernel/x.c:5 f+0x1/0x2", Warning),
        ];
        for (line, kind) in cases {
            let log = log(&format!("[   12.5] {line}\n"));
            assert_eq!(log.incidents().len(), 1, "{line}");
            assert_eq!(log.incidents()[0].kind, kind, "{line}");
            assert_eq!(log.panic(), None);
        }
    }

    #[test]
    fn ordinary_lines_are_no_incident() {
        let log = log("[    0.5] Linux version 6.1\n[    0.6] rcu: Hierarchical RCU implementation.\n\
            the test says Kernel panic - not syncing\n[    0.7] rcu: \tINFO\n");
        assert_eq!(log.incidents(), []);
        assert_eq!(log.seen(), 4);
    }

    #[test]
    fn the_arm_form_of_the_place_is_read() {
        let log = log("Internal error: Oops: 96000044 [#1] SMP\npc : crash+0x8/0x10\n");
        assert_eq!(log.incidents()[0].location.as_deref(), Some("crash+0x8/0x10"));
    }

    #[test]
    fn terminal_sequences_are_removed() {
        let log = log("\u{1b}c\u{1b}[?7l\u{1b}[2J\u{1b}[0mSeaBIOS (version 1)\r\n\u{1b}[31mred\u{1b}[0m!\n");
        assert_eq!(log.tail(9), ["SeaBIOS (version 1)", "red!"]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut log = ConsoleLog::new();
        log.push(&vec![b'x'; 1 << 20]);
        log.push(b"\n");
        assert_eq!(log.tail(1)[0].len(), LONGEST_LINE);
        for _ in 0..KEPT_LINES + 10 {
            log.push(b"WARNING: CPU: 0 again\n");
        }
        assert_eq!(log.lines().count(), KEPT_LINES);
        assert_eq!(log.seen(), KEPT_LINES + 11);
        assert_eq!(log.incidents().len(), MOST_INCIDENTS);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn how_it_is_cut_makes_no_difference(cuts in prop::collection::vec(1usize..40, 1..40)) {
            let mut log_cut = ConsoleLog::new();
            let mut rest = OOPS_AND_PANIC.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                log_cut.push(now);
                rest = later;
            }
            log_cut.finish();
            let log_whole = log(OOPS_AND_PANIC);
            prop_assert_eq!(log_cut.incidents(), log_whole.incidents());
        }

        #[test]
        fn rubbish_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut log = ConsoleLog::new();
            log.push(&bytes);
            log.finish();
            for line in log.lines() {
                prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }
}
