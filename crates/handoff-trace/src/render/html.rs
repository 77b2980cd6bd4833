//! An interactive time line in one HTML file that opens offline: zoom, search, wake-up arrows.
//!
//! The file holds the data as JSON and a small script that draws it on a canvas; it loads nothing.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::svg::escaped;
use crate::diagnose::{Diagnosis, duration};
use crate::event::{EventKind, Tid, priority_text};
use crate::model::timeline::{Since, State, Timeline};
use crate::trace::Trace;

const PAGE: &str = include_str!("timeline.html");

/// The most pieces (turns, intervals, wake-ups) in a file: a browser draws so many smoothly.
const MAX_PIECES: usize = 400_000;

#[derive(Debug, Clone, Default)]
pub struct View<'a> {
    pub title: &'a str,
    /// From when to when, in nanoseconds; all of the trace if none.
    pub window: Option<(u64, u64)>,
    /// Tasks whose states get a row of their own, uppermost first; the busiest 40 if none.
    pub tasks: Vec<Tid>,
    /// What is shown above the time line, and marked in it.
    pub diagnosis: Option<&'a Diagnosis>,
}

/// The data that the script draws. Times are nanoseconds from `start`.
#[derive(Serialize)]
struct Data {
    start: u64,
    length: u64,
    /// Number, name.
    names: Vec<(Tid, String)>,
    /// For each CPU: start, length, task, priority.
    cpus: Vec<Vec<(u64, u64, Tid, String)>>,
    /// For each CPU: start and length in interrupts.
    interrupts: Vec<Vec<(u64, u64)>>,
    rows: Vec<Row>,
    /// Time, waker (-1: an interrupt), waker's CPU, wakee, when it ran, and where (-1: not in view).
    wakes: Vec<(u64, Tid, u16, Tid, u64, i32)>,
    /// Time, text.
    marks: Vec<(u64, String)>,
    /// Start, length.
    window: Option<(u64, u64)>,
    /// Pieces left out because there were too many.
    left_out: usize,
}

#[derive(Serialize)]
struct Row {
    tid: Tid,
    name: String,
    /// Start, length, state (0 running, 1 woken and waiting, 2 preempted, 3 asleep, 4 uninterruptible), CPU.
    states: Vec<(u64, u64, u8, i32)>,
    /// Start, length, name: what the program noted of itself.
    slices: Vec<(u64, u64, String)>,
}

pub fn html(trace: &Trace, timeline: &Timeline, view: &View<'_>) -> String {
    let data = data(trace, timeline, view);
    // `<` would let a task's name end the script element.
    let json = serde_json::to_string(&data).unwrap_or_default().replace('<', "\\u003c");
    let diagnosis =
        view.diagnosis.map_or_else(String::new, |of| format!("<pre>{}</pre>", multiline(&of.to_string())));
    let title = if view.title.is_empty() { "Time line" } else { view.title };
    fill(PAGE, &[("@TITLE@", &escaped(title)), ("@DIAGNOSIS@", &diagnosis), ("@DATA@", &json)])
}

/// Puts values in the places of their marks, in one pass: a task may be called like a mark.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    loop {
        let next = values.iter().filter_map(|(mark, value)| Some((rest.find(mark)?, mark, value))).min();
        let Some((at, mark, value)) = next else { break };
        out.push_str(&rest[..at]);
        out.push_str(value);
        rest = &rest[at + mark.len()..];
    }
    out + rest
}

/// Like [`escaped`], and keeps the lines.
fn multiline(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

fn data(trace: &Trace, timeline: &Timeline, view: &View<'_>) -> Data {
    let (first, last) = timeline.span;
    let (start, end) = view.window.map_or((first, last), |(start, end)| (start.max(first), end.min(last)));
    let end = end.max(start.saturating_add(1));
    let cut = |from: u64, to: u64| {
        let (from, to) = (from.max(start), to.min(end));
        (from - start, to.saturating_sub(from))
    };
    let mut budget = MAX_PIECES;
    let mut left_out = 0;
    let mut fits = || {
        let fits = budget > 0;
        budget = budget.saturating_sub(1);
        left_out += usize::from(!fits);
        fits
    };

    let tasks = if view.tasks.is_empty() { busiest(timeline, start, end) } else { view.tasks.clone() };
    let mut named: BTreeSet<Tid> = tasks.iter().copied().collect();
    let mut rows = Vec::new();
    for tid in tasks {
        let intervals = timeline.tasks.get(&tid).map_or(&[][..], |line| line.between(start, end));
        let states = intervals
            .iter()
            .filter(|_| fits())
            .map(|interval| {
                let (at, length) = cut(interval.start, interval.end);
                let (state, cpu) = code(interval.state);
                (at, length, state, cpu)
            })
            .collect();
        let slices = trace
            .slices()
            .iter()
            .filter(|slice| slice.tid == tid && slice.end >= start && slice.start <= end)
            .filter(|_| fits())
            .map(|slice| {
                let (at, length) = cut(slice.start, slice.end);
                (at, length, slice.name.clone())
            })
            .collect();
        rows.push(Row { tid, name: trace.last_name(tid), states, slices });
    }

    let mut cpus = Vec::new();
    for cpu in 0..timeline.cpus.len() {
        let turns =
            timeline.turns(cpu as u16, start, end).iter().filter(|turn| turn.tid != 0).filter(|_| fits());
        let turns: Vec<_> = turns
            .map(|turn| {
                named.insert(turn.tid);
                let (at, length) = cut(turn.start, turn.end);
                (at, length, turn.tid, priority_text(turn.prio))
            })
            .collect();
        cpus.push(turns);
    }
    let interrupts = timeline
        .interrupts
        .iter()
        .map(|spans| {
            let seen = spans.iter().filter(|span| span.1 > start && span.0 < end).filter(|_| fits());
            seen.map(|span| cut(span.0, span.1)).collect()
        })
        .collect();

    let from = timeline.wakes.partition_point(|wake| wake.time < start);
    let wakes = timeline.wakes[from..]
        .iter()
        .take_while(|wake| wake.time < end)
        .filter(|wake| !wake.early)
        .filter(|_| fits())
        .map(|wake| {
            named.extend([wake.waker, wake.wakee]);
            let ran = wake.ran.filter(|(time, _)| *time < end);
            let waker = if wake.interrupt { -1 } else { wake.waker };
            let (at, cpu) = ran.map_or((wake.time, -1), |(time, cpu)| (time, i32::from(cpu)));
            (wake.time - start, waker, wake.waker_cpu, wake.wakee, at - start, cpu)
        })
        .collect();
    let marks = trace
        .between(start, end)
        .iter()
        .filter_map(|event| {
            let text = match event.what {
                EventKind::Marker(index) => trace.text(index)?.to_owned(),
                EventKind::Frequency { cpu, khz } => format!("CPU {cpu}: {} MHz", khz / 1000),
                EventKind::PriorityInherited { tid, old, new } => {
                    format!("task {tid}: {} to {}", priority_text(old), priority_text(new))
                }
                _ => return None,
            };
            Some((event.time - start, text))
        })
        .collect();
    let names = named.into_iter().map(|tid| (tid, trace.last_name(tid))).collect();
    let window = view.diagnosis.map(|of| cut(of.window.start, of.window.end));
    Data { start, length: end - start, names, cpus, interrupts, rows, wakes, marks, window, left_out }
}

/// The tasks that ran longest.
fn busiest(timeline: &Timeline, start: u64, end: u64) -> Vec<Tid> {
    const ROWS: usize = 40;
    let mut ran: HashMap<Tid, u64> = HashMap::new();
    for cpu in 0..timeline.cpus.len() {
        for turn in timeline.turns(cpu as u16, start, end).iter().filter(|turn| turn.tid != 0) {
            let ran = ran.entry(turn.tid).or_default();
            *ran = ran.saturating_add(turn.end.min(end) - turn.start.max(start));
        }
    }
    let mut tasks: Vec<_> = ran.into_iter().collect();
    tasks.sort_by_key(|(tid, ns)| (std::cmp::Reverse(*ns), *tid));
    tasks.into_iter().take(ROWS).map(|(tid, _)| tid).collect()
}

fn code(state: State) -> (u8, i32) {
    match state {
        State::Running { cpu } => (0, cpu.into()),
        State::Runnable { cpu, since: Since::Woken | Since::New } => (1, cpu.into()),
        State::Runnable { cpu, since: Since::Preempted } => (2, cpu.into()),
        State::Blocked { uninterruptible: false } => (3, -1),
        State::Blocked { uninterruptible: true } => (4, -1),
    }
}

/// A window around a transaction: as long again on both sides, so that one sees what led to it.
pub fn around(diagnosis: &Diagnosis) -> (u64, u64) {
    let window = diagnosis.window;
    (window.start.saturating_sub(window.length()), window.end.saturating_add(window.length()))
}

/// A title for a transaction's page.
pub fn title(diagnosis: &Diagnosis) -> String {
    let (window, length) = (diagnosis.window, duration(diagnosis.window.length()));
    match (window.callee, diagnosis.names.get(&window.caller)) {
        (None, Some(name)) => format!("{length} of {name} (task {})", window.caller),
        _ => format!("A transaction of {length}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks, preempts, wakeup, waking};

    fn page(name: &str, view: &View<'_>) -> String {
        let events = vec![
            blocks(0, 1, 0, 3),
            waking(10, 0, 1, 2, 1),
            wakeup(12, 0, 1, 2, 1),
            preempts(20, 1, 3, 2),
            blocks(30, 1, 2, 3),
            blocks(40, 1, 3, 0),
        ];
        let trace = Trace::from_events(events, [(2, name.to_owned())], 2);
        html(&trace, &Timeline::of(&trace), view)
    }

    fn data_of(page: &str) -> serde_json::Value {
        let (_, rest) = page.split_once("type=\"application/json\">").expect("the data");
        let (json, _) = rest.split_once("</script>").expect("its end");
        serde_json::from_str(json).expect("JSON")
    }

    #[test]
    fn the_page_holds_turns_states_and_wakes() {
        let page = page("two", &View { title: "A & B", ..View::default() });
        assert!(page.contains("<title>A &amp; B</title>"));
        let data = data_of(&page);
        assert_eq!(
            data["cpus"][1],
            serde_json::json!([[0, 20, 3, "nice 0"], [20, 10, 2, "nice 0"], [30, 10, 3, "nice 0"]])
        );
        assert_eq!(data["wakes"], serde_json::json!([[10, 1, 0, 2, 20, 1]]));
        let two = data["rows"].as_array().expect("rows").iter().find(|row| row["tid"] == 2).expect("task 2");
        assert_eq!(two["states"], serde_json::json!([[10, 10, 1, 1], [20, 10, 0, 1], [30, 10, 3, -1]]));
    }

    #[test]
    fn a_window_cuts_what_reaches_out_of_it() {
        let data = data_of(&page("two", &View { window: Some((15, 25)), tasks: vec![2], ..View::default() }));
        assert_eq!((&data["start"], &data["length"]), (&15.into(), &10.into()));
        assert_eq!(data["cpus"][1], serde_json::json!([[0, 5, 3, "nice 0"], [5, 5, 2, "nice 0"]]));
        assert_eq!(data["rows"][0]["states"], serde_json::json!([[0, 5, 1, 1], [5, 5, 0, 1]]));
    }

    #[test]
    fn a_name_cannot_end_the_script() {
        let page = page("</script><b>", &View::default());
        assert!(!page.contains("</script><b>"));
        let names = data_of(&page)["names"].to_string();
        assert!(names.contains("</script><b>"), "it is shown as it is: {names}");
    }

    #[test]
    fn a_value_that_looks_like_a_mark_stays() {
        assert_eq!(fill("<@A@ @B@ @A@>", &[("@A@", "@B@"), ("@B@", "x")]), "<@B@ x @B@>");
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = page("two", &View::default());
        for outside in ["http://", "https://", "src=", "@import", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("@TITLE@") && !page.contains("@DATA@") && !page.contains("@DIAGNOSIS@"));
    }
}
