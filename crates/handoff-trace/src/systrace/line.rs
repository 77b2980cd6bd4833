//! One line: who, where, when, and the event's own text.

use crate::event::{Context, Cpu, Tid};

/// An event as text, not yet understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) tid: Tid,
    /// Its process, where the column is there.
    pub(super) process: Option<Tid>,
    pub(super) cpu: Cpu,
    pub(super) context: Context,
    /// In nanoseconds.
    pub(super) time: u64,
    pub(super) function: &'a str,
    pub(super) body: &'a str,
}

impl<'a> Line<'a> {
    /// Takes `name-tid (process) [cpu] flags seconds: function: body` apart; process and flags may be absent.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if text.starts_with('#') {
            return None;
        }
        // A name may have brackets, too: the first that are followed by what must follow are the CPU's.
        text.match_indices(" [").find_map(|(at, _)| Self::at(&text[..at], &text[at + 2..]))
    }

    fn at(who: &'a str, rest: &'a str) -> Option<Self> {
        let (cpu, rest) = rest.split_once(']')?;
        let (mut word, mut rest) = word(rest)?;
        let mut context = Context::default();
        if !word.ends_with(':') {
            context = flags(word);
            (word, rest) = self::word(rest)?;
        }
        let time = time(word.strip_suffix(':')?)?;
        let (function, body) = rest.split_once(':')?;
        let (name, tid, process) = task(who)?;
        let (function, body) = (function.trim(), body.trim());
        let cpu = number(cpu)?;
        Some(Self { name, tid, process, cpu, context, time, function, body })
    }
}

/// The first word, and what is behind it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace)?;
    Some(text.split_at(end))
}

/// A number of digits only: no sign, as the kernel writes it.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// `name-12`, or `name-12 (10)` with the process; `(-----)` if that is not known.
fn task(text: &str) -> Option<(&str, Tid, Option<Tid>)> {
    let text = text.trim();
    let (text, process) = match text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        Some((text, process)) => (text.trim_end(), number(process.trim())),
        None => (text, None),
    };
    let (name, tid) = text.rsplit_once('-')?;
    Some((name.trim(), number(tid)?, process))
}

/// Interrupts off, reschedule, **in an interrupt**, preempt count: the third says the context.
fn flags(text: &str) -> Context {
    Context(match text.as_bytes().get(2) {
        Some(b'h') => 0x08,
        Some(b's') => 0x10,
        Some(b'H') => 0x18,
        // Non-maskable ones are interrupts as well.
        Some(b'z' | b'Z') => 0x08,
        _ => 0,
    })
}

/// Seconds with a fraction, in nanoseconds.
fn time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let part = number::<u64>(fraction)? * 10_u64.pow(9 - digits);
    number::<u64>(seconds)?.checked_mul(1_000_000_000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line<'_> {
        Line::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn lines_of_every_kernel_are_taken_apart() {
        let plain = line("          <idle>-0     [003] d.h2. 12345.678901: sched_waking: comm=a b pid=1");
        let expected = Line {
            name: "<idle>",
            tid: 0,
            process: None,
            cpu: 3,
            context: Context(0x08),
            time: 12_345_678_901_000,
            function: "sched_waking",
            body: "comm=a b pid=1",
        };
        assert_eq!(plain, expected);
        // With the process, with four flags, with nanoseconds, without flags, and with an odd name.
        assert_eq!(line("Binder:1-2-77 ( 70) [001] ...1 0.5: x: y").process, Some(70));
        assert_eq!(line("a-7 (-----) [001] ...1 0.5: x: y").process, None);
        assert_eq!(line("Binder:1-2-77 ( 70) [001] ...1 0.5: x: y").name, "Binder:1-2");
        assert_eq!(line("  a [0] b-7 [001] 1.000000002: x: y: z").time, 1_000_000_002);
        assert_eq!(line("  a [0] b-7 [001] 1.000000002: x: y: z").name, "a [0] b");
        assert_eq!(line("  a-7 [001] 1.5: sched_switch:         y: z").body, "y: z");
    }

    #[test]
    fn other_lines_are_none() {
        for text in [
            "",
            "# tracer: nop",
            "CPU:1 [LOST 12 EVENTS]",
            "a-7 [001] 1.5 x: y",
            "a-b [001] 1.5: x: y",
            "a-7 [x] 1.5: x: y",
            "a-7 [001] 99999999999999999999.5: x: y",
            "a-7 [001] 99999999999.5: x: y",
            "a-7 [001] 1.: x: y",
            "a-7 [001] 1.0000000001: x: y",
            "a-7 [001]",
        ] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
    }
}
