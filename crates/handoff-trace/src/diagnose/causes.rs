//! From the critical path to causes: whose time it was, and who is to blame.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Window;
use super::path::{Step, TaskActivity};
use super::text;
use crate::event::{Cpu, EventKind, Tid, is_fair};
use crate::model::timeline::{Since, State, Timeline};
use crate::trace::Trace;

/// A task that was ready but found its CPU idle for longer than this was not kept by the way out of
/// an idle state, which takes at most a few milliseconds on any machine.
const LONGEST_IDLE_EXIT_NS: u64 = 5_000_000;

/// A task held back by a quota waits for the rest of a period, which is 1 ms at least.
const SHORTEST_THROTTLE_NS: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The caller itself ran: before it sent the call, or after the reply woke it.
    CallerRan,
    /// The callee ran: the work itself.
    CalleeRan,
    /// A third task ran, and the callee (or caller) slept until that would wake it.
    HeldUp,
    /// It was held up by a less important task, directly or because no priority was inherited.
    PriorityInversion,
    /// It was woken on a CPU where another task was running.
    BusyCpu,
    /// Another task took the CPU away from it.
    Preempted,
    /// It was woken on an idle CPU, which took its time.
    IdleExit,
    /// It was ready and the first in turn, but a limit on CPU time kept it from running.
    Throttled,
    /// Interrupts took the time of a task that was running.
    Interrupts,
    /// It slept until a timer or a device woke it.
    Slept,
    /// The trace does not say.
    NotInTrace,
}

/// One cause, and how much of the transaction it took.
#[derive(Debug, Clone, Serialize)]
pub struct Cause {
    pub kind: Kind,
    /// The task on the critical path whose time it was.
    pub tid: Tid,
    /// The task to blame, where there is one.
    pub culprit: Option<Tid>,
    /// The CPU on which it happened, where it happened on one.
    pub cpu: Option<Cpu>,
    /// How long it took, in nanoseconds.
    pub ns: u64,
    /// Its part of the transaction, 0 to 1.
    pub share: f64,
    pub text: String,
}

/// What tells two causes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) tid: Tid,
    pub(super) culprit: Option<Tid>,
    pub(super) cpu: Option<Cpu>,
}

/// All that a cause is told from.
pub(super) struct Case<'a> {
    pub(super) trace: &'a Trace,
    pub(super) timeline: &'a Timeline,
    pub(super) window: Window,
}

impl Case<'_> {
    /// The priority of a task in the window, as the kernel counts; nice 0 if unknown.
    pub(super) fn prio(&self, tid: Tid, time: u64) -> i16 {
        self.timeline.tasks.get(&tid).and_then(|line| line.prio(time)).unwrap_or(120)
    }

    /// Whether the task is one that caller or callee waits for, and not one of them.
    fn third(&self, step: &Step) -> bool {
        let callee = self
            .window
            .callee
            .or_else(|| (step.waited_for_by == Some(self.window.caller)).then_some(step.tid));
        step.tid != self.window.caller && Some(step.tid) != callee
    }

    /// Whether a quota kept this task from running at some time.
    fn has_used_up_quota(&self, tid: Tid) -> bool {
        self.trace.context().throttled.iter().any(|group| group.tasks.contains(&tid))
    }
}

/// The causes, the weightiest first.
pub(super) fn causes(trace: &Trace, timeline: &Timeline, window: Window, path: &[Step]) -> Vec<Cause> {
    let case = Case { trace, timeline, window };
    // For each how long, and when it began.
    let mut tally: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
    for step in path {
        tally_step(&case, step, &mut |key, ns| {
            if ns > 0 {
                tally.entry(key).or_insert((0, step.start)).0 += ns;
            }
        });
    }
    let length = window.length().max(1) as f64;
    let mut causes: Vec<_> = tally
        .into_iter()
        .map(|(key, (ns, since))| Cause {
            kind: key.kind,
            tid: key.tid,
            culprit: key.culprit,
            cpu: key.cpu,
            ns,
            share: ns as f64 / length,
            text: text::cause(&case, key, since),
        })
        .collect();
    causes.sort_by_key(|cause| (std::cmp::Reverse(cause.ns), cause.kind, cause.tid));
    causes
}

fn tally_step(case: &Case<'_>, step: &Step, add: &mut impl FnMut(Key, u64)) {
    let Step { start, end, tid, .. } = *step;
    let key = |kind, culprit, cpu| Key { kind, tid, culprit, cpu };
    match step.doing {
        TaskActivity::Running { cpu } => {
            let interrupts = case.timeline.interrupt_time(cpu, start, end);
            add(key(Kind::Interrupts, None, Some(cpu)), interrupts);
            let kind = if tid == case.window.caller {
                key(Kind::CallerRan, None, None)
            } else if case.third(step) {
                let kind = if inverted(case, step) { Kind::PriorityInversion } else { Kind::HeldUp };
                Key { kind, tid: step.waited_for_by.unwrap_or(tid), culprit: Some(tid), cpu: None }
            } else {
                key(Kind::CalleeRan, None, None)
            };
            add(kind, step.length() - interrupts);
        }
        TaskActivity::Waiting { cpu, since } => tally_wait(case, step, cpu, since, add),
        TaskActivity::Sleeping => add(key(Kind::Slept, None, None), step.length()),
        TaskActivity::Unknown => add(key(Kind::NotInTrace, None, None), step.length()),
    }
}

/// Whether a less important task stands in the way of a more important one.
fn inverted(case: &Case<'_>, step: &Step) -> bool {
    step.waited_for_by.is_some_and(|waiter| case.prio(step.tid, step.start) > case.prio(waiter, step.start))
}

/// Splits a wait for a CPU by who ran there meanwhile.
fn tally_wait(case: &Case<'_>, step: &Step, cpu: Cpu, since: Since, add: &mut impl FnMut(Key, u64)) {
    let Step { start, end, tid, .. } = *step;
    let caller_prio = case.prio(case.window.caller, case.window.start);
    let own_prio = case.prio(tid, start);
    let key = |kind, culprit| Key { kind, tid, culprit, cpu: Some(cpu) };
    let limited = case.has_used_up_quota(tid) && step.length() >= SHORTEST_THROTTLE_NS;
    let mut seen = 0;
    for turn in case.timeline.turns(cpu, start, end) {
        let ns = turn.end.min(end) - turn.start.max(start);
        seen += ns;
        if turn.tid == tid {
            add(key(Kind::NotInTrace, None), ns);
            continue;
        }
        if turn.tid == 0 {
            let kind = if limited || since == Since::Preempted || step.length() > LONGEST_IDLE_EXIT_NS {
                Kind::Throttled
            } else {
                Kind::IdleExit
            };
            add(key(kind, None), ns);
            continue;
        }
        let key = if limited || !is_fair(own_prio) && is_fair(turn.prio) {
            // A lower class runs while a real-time task is ready only if the latter is held back.
            key(Kind::Throttled, None)
        } else if case.third(step) && inverted(case, step) {
            let waiter = step.waited_for_by.unwrap_or(tid);
            Key { kind: Kind::PriorityInversion, tid: waiter, culprit: Some(tid), cpu: Some(cpu) }
        } else if own_prio > caller_prio && turn.prio > caller_prio {
            key(Kind::PriorityInversion, Some(turn.tid))
        } else if since == Since::Preempted {
            key(Kind::Preempted, Some(turn.tid))
        } else {
            key(Kind::BusyCpu, Some(turn.tid))
        };
        add(key, ns);
    }
    add(key(Kind::NotInTrace, None), step.length() - seen.min(step.length()));
}

/// What makes a diagnosis less sure, and what else was going on.
pub(super) fn notes(trace: &Trace, timeline: &Timeline, window: Window, path: &[Step]) -> Vec<String> {
    let Window { start, end, .. } = window;
    let mut notes = Vec::new();
    if trace.incomplete(start, end) {
        notes.push(
            "events of this time are missing from the trace: record with a larger buffer to be sure"
                .to_owned(),
        );
    }
    let unseen = timeline.unseen.iter().filter(|(time, _)| (start..=end).contains(time)).count();
    if unseen > 0 {
        notes.push(format!(
            "the trace misses a switch between tasks {} in this time (lost, filtered out or hidden by the kernel): \
             whoever was seen last is taken to have run on",
            text::times(unseen)
        ));
    }
    let tasks: Vec<Tid> = [Some(window.caller), window.callee].into_iter().flatten().collect();
    for tid in &tasks {
        let Some(line) = timeline.tasks.get(tid) else { continue };
        let moves = line.migrations.iter().filter(|(time, ..)| (start..end).contains(time)).count();
        if moves > 0 {
            notes.push(format!(
                "{} was moved to another CPU {}",
                text::task(trace, timeline, *tid, start),
                text::times(moves)
            ));
        }
        for (time, old, new) in line.inherited.iter().filter(|(time, ..)| (start..end).contains(time)) {
            notes.push(format!(
                "{} went from {} to {} {} after the start, by priority inheritance",
                text::task(trace, timeline, *tid, start),
                crate::event::priority_text(*old),
                crate::event::priority_text(*new),
                text::duration(time - start),
            ));
        }
    }
    for event in trace.between(start, end) {
        if let EventKind::Frequency { cpu, khz } = event.what {
            notes.push(format!(
                "CPU {cpu} changed to {} MHz {} after the start",
                khz / 1000,
                text::duration(event.time - start)
            ));
        }
    }
    let ran_on = |cpu: usize| {
        path.iter()
            .any(|step| matches!(step.doing, TaskActivity::Running { cpu: at } if usize::from(at) == cpu))
    };
    for (cpu, ns) in trace.context().steal_ns.iter().enumerate() {
        if *ns >= window.length() / 10 && *ns > 0 && ran_on(cpu) {
            notes.push(format!(
                "the hypervisor took CPU {cpu} away for {} while this was recorded; some of that may lie \
                 in this transaction, where it looks like running",
                text::duration(*ns)
            ));
        }
    }
    for group in &trace.context().throttled {
        notes.push(format!(
            "the CPU quota of {} ran out {} while this was recorded",
            group.group.display(),
            text::times(usize::try_from(group.times).unwrap_or(usize::MAX))
        ));
    }
    let uninterruptible = tasks.iter().filter_map(|tid| timeline.tasks.get(tid)).any(|line| {
        line.between(start, end).iter().any(|i| matches!(i.state, State::Blocked { uninterruptible: true }))
    });
    if uninterruptible {
        notes.push("a sleep in it was uninterruptible: a disk, or a lock inside the kernel".to_owned());
    }
    notes
}
