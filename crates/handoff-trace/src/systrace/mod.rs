//! Traces as text: the kernel's own `trace` file, what `atrace` and `trace-cmd report` print, and the HTML
//! files of systrace, which hold the same lines.
//!
//! Text carries less than the binary pages do: times in microseconds, and only what a line says. It is for
//! recordings that exist; a new one is better made by `handoff sched record`.
//!
//! Reference: `Documentation/trace/ftrace.rst` of the kernel, "Output format".

mod body;
mod line;

use std::collections::HashMap;
use std::path::Path;

use crate::error::{Result, TraceError};
use crate::event::{Cpu, Event, EventKind, MAX_CPUS, Tid};
use crate::trace::{Parts, Slice, Trace};
use body::Body;
use line::Line;

/// Reads a trace from the text of a file; `path` is for messages only.
///
/// Lines that are no events are passed over, and events that no question here is about. What apps noted by
/// `B|pid|name` and `E` becomes slices.
pub fn from_text(text: &str, path: &Path) -> Result<Trace> {
    let fail = |why: &str| TraceError::NotATrace { path: path.to_owned(), why: why.to_owned() };
    let mut reader = Reader::default();
    if is_html(text) {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once(SCRIPT) {
            let (script, after) = after.split_once("</script>").ok_or_else(|| fail("it was cut short"))?;
            let lines = script.split_once('>').map_or("", |(_, lines)| lines);
            lines.lines().for_each(|line| reader.line(line));
            rest = after;
        }
    } else {
        text.lines().for_each(|line| reader.line(line));
    }
    if reader.parts.events.is_empty() {
        return Err(fail(
            "no line of it is an event of the scheduler, as in `bash-12 [000] d..2. 1.000001: sched_switch: \
             prev_comm=...`: enable `sched_switch` and `sched_waking` (`atrace sched`)",
        ));
    }
    // The text does not say which clock it was; Android's and systrace's is boot time or like it.
    reader.parts.clock = "unknown".to_owned();
    Ok(reader.parts.into_trace())
}

/// Begins each part of systrace's pages that holds lines.
const SCRIPT: &str = "<script class=\"trace-data\"";

fn is_html(text: &str) -> bool {
    let start = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

#[derive(Default)]
struct Reader {
    parts: Parts,
    /// What a task has begun and not ended, the innermost last.
    open: HashMap<Tid, Vec<(String, u64)>>,
    /// CPUs whose first event comes next.
    starts: Vec<Cpu>,
    /// CPUs that lost events before their next one.
    gaps: Vec<Cpu>,
}

impl Reader {
    fn line(&mut self, text: &str) {
        if let Some(line) = Line::parse(text) {
            self.event(&line);
        } else {
            self.note(text);
        }
    }

    fn event(&mut self, line: &Line<'_>) {
        if line.cpu >= MAX_CPUS {
            self.parts.unknown += 1;
            return;
        }
        if take(&mut self.starts, line.cpu) {
            self.parts.from.insert(line.cpu, line.time);
        }
        if take(&mut self.gaps, line.cpu) {
            self.parts.gaps.push((line.time, line.cpu));
        }
        if line.tid != 0 && line.name != "<...>" {
            self.parts.names.saw(line.time, line.tid, line.name.as_bytes());
        }
        if let Some(process) = line.process {
            self.parts.processes.insert(line.tid, process);
        }
        let what = match Body::parse(line.function, line.body) {
            Body::Event { what, names } => {
                for (tid, name) in names.into_iter().flatten() {
                    self.parts.names.saw(line.time, tid, name.as_bytes());
                }
                what
            }
            Body::Marker(text) => {
                self.slice(line, text);
                let Ok(index) = u32::try_from(self.parts.texts.len()) else { return };
                self.parts.texts.push(text.to_owned());
                EventKind::Marker(index)
            }
            Body::Damaged => {
                self.parts.unknown += 1;
                return;
            }
            Body::Unused => return,
        };
        let Line { time, tid, cpu, context, .. } = *line;
        self.parts.events.push(Event { time, tid, cpu, context, what });
    }

    /// `B|pid|name` begins a slice of the task and `E` ends it.
    fn slice(&mut self, line: &Line<'_>, text: &str) {
        let mut words = text.splitn(3, '|');
        match (words.next(), words.nth(1)) {
            (Some("B"), Some(name)) => {
                self.open.entry(line.tid).or_default().push((name.to_owned(), line.time));
            }
            (Some("E"), _) => {
                if let Some((name, start)) = self.open.get_mut(&line.tid).and_then(Vec::pop) {
                    let (tid, end) = (line.tid, line.time);
                    self.parts.slices.push(Slice { name, tid, start, end });
                }
            }
            _ => {}
        }
    }

    /// What a line that is no event says of its CPU: where its part begins, or that some were lost.
    fn note(&mut self, text: &str) {
        let text = text.trim();
        let started = text.strip_prefix("##### CPU ").and_then(|rest| rest.split_once(" buffer started"));
        if let Some(cpu) = started.and_then(|(cpu, _)| cpu.parse().ok()) {
            self.starts.push(cpu);
            return;
        }
        // `CPU:3 [LOST 12 EVENTS]` of the kernel, `CPU:3 [12 EVENTS DROPPED]` of trace-cmd.
        let Some((cpu, rest)) = text.strip_prefix("CPU:").and_then(|rest| rest.split_once(" [")) else {
            return;
        };
        let Some(cpu) = cpu.parse().ok().filter(|cpu| *cpu < MAX_CPUS) else { return };
        if rest.starts_with("LOST ") || rest.ends_with(" EVENTS DROPPED]") || rest == "EVENTS DROPPED]" {
            let count = rest.split(' ').find_map(|word| word.parse::<u64>().ok()).unwrap_or(1);
            let lost = self.parts.lost.entry(cpu).or_default();
            *lost = lost.saturating_add(count);
            self.gaps.push(cpu);
        }
    }
}

/// Whether a CPU was in the list; it no longer is.
fn take(list: &mut Vec<Cpu>, cpu: Cpu) -> bool {
    let before = list.len();
    list.retain(|other| *other != cpu);
    list.len() < before
}

#[cfg(test)]
mod tests;
