//! The diagnosis in words.

use std::fmt;

use super::causes::{Case, Key, Kind};
use super::{Diagnosis, TaskActivity};
use crate::event::{Tid, priority_text};
use crate::model::timeline::{State, Timeline};
use crate::trace::Trace;

/// A duration with three significant digits and a unit that suits it.
pub(crate) fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// `once`, `twice`, `3 times`.
pub(super) fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

/// What a task is called at a moment. A name that it gives itself is in the trace from when it next
/// leaves its CPU, so that counts for the whole turn.
pub(crate) fn name(trace: &Trace, timeline: &Timeline, tid: Tid, time: u64) -> String {
    let line = timeline.tasks.get(&tid).map_or(&[][..], |line| line.between(time, time.saturating_add(1)));
    let known = line.first().filter(|now| matches!(now.state, State::Running { .. }));
    trace.name(tid, known.map_or(time, |turn| turn.end))
}

/// A task as `name (task 12, nice 0)`.
pub(super) fn task(trace: &Trace, timeline: &Timeline, tid: Tid, time: u64) -> String {
    let name = name(trace, timeline, tid, time);
    match timeline.tasks.get(&tid).and_then(|line| line.prio(time)) {
        Some(prio) => format!("`{name}` (task {tid}, {})", priority_text(prio)),
        None => format!("`{name}` (task {tid})"),
    }
}

/// A cause in words; it began at `start`, which is when the priorities are looked up.
pub(super) fn cause(case: &Case<'_>, key: Key, start: u64) -> String {
    let task = |tid| task(case.trace, case.timeline, tid, start);
    let who = role(case, key.tid) + &task(key.tid);
    let culprit = key.culprit.map(task).unwrap_or_default();
    let cpu = key.cpu.map_or_else(|| "its CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    match key.kind {
        Kind::CallerRan => format!("{who} itself was running"),
        Kind::CalleeRan => format!("{who} was running: the work itself"),
        Kind::HeldUp => format!("{who} slept until {culprit}, which had to finish something first, woke it"),
        Kind::PriorityInversion
            if case.prio(key.tid, start) > case.prio(case.window.caller, case.window.start) =>
        {
            format!(
                "priority inversion: {who} is less important than the caller {}, so {culprit} ran on {cpu} before it; \
             the caller's priority was not inherited",
                task(case.window.caller)
            )
        }
        Kind::PriorityInversion => {
            let waited = key.cpu.map_or_else(String::new, |_| format!(" and waited for {cpu} meanwhile"));
            format!(
                "priority inversion: {who} slept until {culprit}, which is less important{waited}, woke it (a lock \
                 without priority inheritance does this)"
            )
        }
        Kind::BusyCpu => format!("{who} was woken on {cpu}, which was busy: {culprit} was running there"),
        Kind::Preempted => format!("{who} was preempted on {cpu} by {culprit}"),
        Kind::IdleExit => {
            format!("{who} was woken on {cpu}, which was idle and took so long to come out of it")
        }
        Kind::Throttled => {
            format!(
                "{who} was ready to run on {cpu}, but a limit kept it from running: {}",
                limit(case, key, start)
            )
        }
        Kind::Interrupts => format!("{who} was running on {cpu}, but interrupts took the time"),
        Kind::Slept => format!("{who} slept until a timer or a device woke it"),
        Kind::NotInTrace => format!("the trace does not show what {who} was waiting for"),
    }
}

fn role(case: &Case<'_>, tid: Tid) -> String {
    match case.window.callee {
        Some(_) if tid == case.window.caller => "the caller ".to_owned(),
        Some(callee) if tid == callee => "the callee ".to_owned(),
        // A wake-up alone has neither.
        _ => String::new(),
    }
}

/// Which limit on CPU time it was.
fn limit(case: &Case<'_>, key: Key, time: u64) -> String {
    let context = case.trace.context();
    if let Some(group) = context.throttled.iter().find(|group| group.tasks.contains(&key.tid)) {
        return format!("the CPU quota of {}", group.group.display());
    }
    match context.rt_limit_us {
        Some((runtime, period)) if case.prio(key.tid, time) < 100 => format!(
            "real-time tasks leave some of the CPU to others (`sched_rt_runtime_us` {runtime} of {period}, or the \
             fair server of Linux 6.12 and later)"
        ),
        _ => "a CPU quota of its control group, most likely".to_owned(),
    }
}

/// What most of the time went to, in one line.
pub(super) fn headline(diagnosis: &Diagnosis) -> String {
    let mut kinds: Vec<(Kind, u64)> = Vec::new();
    for cause in &diagnosis.causes {
        match kinds.iter_mut().find(|(kind, _)| *kind == cause.kind) {
            Some((_, ns)) => *ns += cause.ns,
            None => kinds.push((cause.kind, cause.ns)),
        }
    }
    let Some((kind, ns)) = kinds.into_iter().max_by_key(|(_, ns)| *ns) else { return String::new() };
    let share = 100.0 * ns as f64 / diagnosis.window.length().max(1) as f64;
    // They come in order of weight.
    let of_kind: Vec<_> = diagnosis.causes.iter().filter(|cause| cause.kind == kind).collect();
    let first = of_kind.first().map_or("", |cause| cause.text.as_str());
    let others = of_kind.len().saturating_sub(1);
    let others = if others > 0 { format!(" (mostly; and {others} more like it)") } else { String::new() };
    format!("{share:.0}% of {}: {first}{others}", duration(diagnosis.window.length()))
}

/// How much of each list is printed.
const SHOWN: usize = 8;

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = &self.window;
        let task = |tid: Tid| match self.names.get(&tid) {
            Some(name) => format!("`{name}` (task {tid})"),
            None => format!("task {tid}"),
        };
        let (caller, length) = (task(window.caller), duration(window.length()));
        match window.callee.map(task) {
            Some(callee) => writeln!(f, "The transaction of {caller} with {callee} took {length}.")?,
            None => writeln!(f, "{caller} took {length}.")?,
        }
        writeln!(f, "In short: {}", self.headline())?;
        writeln!(f, "\nWhere the time went:")?;
        for cause in self.causes.iter().filter(|cause| cause.share >= 0.005).take(SHOWN) {
            writeln!(f, "  {:>4.0}%  {:>8}  {}", cause.share * 100.0, duration(cause.ns), cause.text)?;
        }
        for phases in &self.phases {
            writeln!(
                f,
                "  `{}` (task {}): running {}, ready {}, asleep {}",
                phases.name,
                phases.tid,
                duration(phases.running_ns),
                duration(phases.runnable_ns),
                duration(phases.blocked_ns)
            )?;
        }
        writeln!(f, "\nStep by step (time from the start):")?;
        for step in longest(&self.path) {
            let doing = match step.doing {
                TaskActivity::Running { cpu } => format!("runs on CPU {cpu}"),
                TaskActivity::Waiting { cpu, .. } => format!("waits for CPU {cpu}"),
                TaskActivity::Sleeping => "sleeps".to_owned(),
                TaskActivity::Unknown => "is not seen".to_owned(),
            };
            let at = duration(step.start - window.start);
            writeln!(f, "  {at:>8}  {} {doing} for {}", task(step.tid), duration(step.length()))?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

/// The longest steps, in order of time.
fn longest(path: &[super::Step]) -> Vec<super::Step> {
    let mut steps = path.to_vec();
    steps.sort_by_key(|step| std::cmp::Reverse(step.length()));
    steps.truncate(2 * SHOWN);
    steps.sort_by_key(|step| step.start);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let texts: Vec<_> = [999, 1_000, 12_345, 2_500_000, 1_250_000_000].map(duration).into();
        assert_eq!(texts, ["999 ns", "1.00 us", "12.3 us", "2.50 ms", "1.25 s"]);
    }

    #[test]
    fn counts_are_said_as_people_do() {
        assert_eq!([1, 2, 3].map(times), ["once", "twice", "3 times"]);
    }
}
