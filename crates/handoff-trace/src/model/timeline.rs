//! For each task when it ran, was ready to run, and slept; for each CPU who ran; and every wake-up
//! with what came of it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::event::{Cpu, Event, EventKind, LeftAs, Tid, Wakee};
use crate::trace::Trace;

/// What a task does for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    Running {
        cpu: Cpu,
    },
    /// It could run, but does not.
    Runnable {
        /// In whose queue it last was known to be.
        cpu: Cpu,
        /// How it came to wait.
        since: Since,
    },
    Blocked {
        /// Whether signals cannot reach it, as in a disk read or a kernel mutex.
        uninterruptible: bool,
    },
}

/// How a task came to wait for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    Woken,
    /// It was running, and another took its place (or it yielded).
    Preempted,
    New,
}

/// A state and how long it lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// When it began, in nanoseconds.
    pub start: u64,
    pub end: u64,
    #[serde(flatten)]
    pub state: State,
    /// The wake-up that ended a sleep or began a wait: an index into [`Timeline::wakes`].
    pub wake: Option<usize>,
}

impl Interval {
    /// How long it lasted, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Wake {
    pub time: u64,
    /// The task that was current where it began.
    pub waker: Tid,
    /// The CPU on which it began.
    pub waker_cpu: Cpu,
    /// Whether an interrupt did it, so that the current task had nothing to do with it.
    pub interrupt: bool,
    /// Whether that was a software interrupt: then the current task may have had to do with it after
    /// all, since what it sends to this machine itself is delivered so ([`Timeline::answers`]).
    pub soft: bool,
    pub wakee: Tid,
    /// The wakee's priority, as the kernel counts.
    pub prio: i16,
    /// Where the wakee was before.
    pub prev_cpu: Cpu,
    /// The CPU chosen for it.
    pub target_cpu: Option<Cpu>,
    /// When it ran, and where; none if the trace ended first.
    pub ran: Option<(u64, Cpu)>,
    /// It had not yet left its CPU (or its queue): there was nothing to place.
    pub early: bool,
    pub new: bool,
}

impl Wake {
    /// From the wake-up to running, in nanoseconds; none if it was running still, or never ran.
    pub fn latency(&self) -> Option<u64> {
        if self.early { None } else { self.ran.map(|(time, _)| time - self.time) }
    }
}

/// Who ran on a CPU for a while. The idle task is task 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CpuInterval {
    pub start: u64,
    pub end: u64,
    pub tid: Tid,
    /// At which priority, as the kernel counts.
    pub prio: i16,
    /// How it left; none if the trace ended first.
    #[serde(skip)]
    pub left: Option<LeftAs>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TaskLine {
    /// What it did, in order.
    pub intervals: Vec<Interval>,
    /// How often it came to run.
    pub switches: u64,
    /// How often it had to leave while it wanted to go on.
    pub preemptions: u64,
    /// When it was moved to another CPU's queue: time, from, to.
    pub migrations: Vec<(u64, Cpu, Cpu)>,
    /// Changes of its priority by inheritance: time, before, after.
    pub inherited: Vec<(u64, i16, i16)>,
    /// Its priorities: from when on, as the kernel counts.
    pub prios: Vec<(u64, i16)>,
}

impl TaskLine {
    /// The intervals that reach into `start..end`.
    pub fn between(&self, start: u64, end: u64) -> &[Interval] {
        let from = self.intervals.partition_point(|interval| interval.end <= start);
        let to = self.intervals.partition_point(|interval| interval.start < end);
        self.intervals.get(from..to).unwrap_or_default()
    }

    /// Its priority at a moment, as far as known.
    pub fn prio(&self, time: u64) -> Option<i16> {
        let at = self.prios.partition_point(|(since, _)| *since <= time).saturating_sub(1);
        self.prios.get(at).map(|(_, prio)| *prio)
    }
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Timeline {
    /// Each task but the idle ones.
    pub tasks: BTreeMap<Tid, TaskLine>,
    /// Each CPU: who ran.
    pub cpus: Vec<Vec<CpuInterval>>,
    pub wakes: Vec<Wake>,
    /// Every moment at which a CPU was in an interrupt, by CPU: start and end.
    pub interrupts: Vec<Vec<(u64, u64)>>,
    /// Moments by which a switch must have happened that the trace does not have, by CPU.
    pub unseen: Vec<(u64, Cpu)>,
    /// When it starts and ends.
    pub span: (u64, u64),
}

impl Timeline {
    pub fn of(trace: &Trace) -> Self {
        let mut builder = Builder::new(trace);
        trace.events().iter().for_each(|event| builder.take(event));
        builder.finish()
    }

    /// Who ran on a CPU in `start..end`, idle included.
    pub fn turns(&self, cpu: Cpu, start: u64, end: u64) -> &[CpuInterval] {
        let turns = self.cpus.get(usize::from(cpu)).map_or(&[][..], Vec::as_slice);
        let from = turns.partition_point(|turn| turn.end <= start);
        let to = turns.partition_point(|turn| turn.start < end);
        turns.get(from..to).unwrap_or_default()
    }

    /// Whether a wake-up in a software interrupt is the current task's answer: it had been woken last by
    /// whom it wakes now. So it is on a loopback connection.
    pub fn answers(&self, wake: usize) -> bool {
        /// A task that was woken longer ago has done something else since.
        const BACK: usize = 10_000;
        let Some(Wake { soft: true, waker, wakee, .. }) = self.wakes.get(wake) else { return false };
        let last = self.wakes[..wake].iter().rev().take(BACK).find(|earlier| earlier.wakee == *waker);
        *waker != 0 && last.is_some_and(|last| last.waker == *wakee)
    }

    /// How long a CPU was in interrupts in `start..end`, in nanoseconds.
    pub fn interrupt_time(&self, cpu: Cpu, start: u64, end: u64) -> u64 {
        let spans = self.interrupts.get(usize::from(cpu)).map_or(&[][..], Vec::as_slice);
        let from = spans.partition_point(|span| span.1 <= start);
        spans[from..]
            .iter()
            .take_while(|span| span.0 < end)
            .map(|span| span.1.min(end) - span.0.max(start))
            .sum()
    }
}

/// What is known of a task while the events go by.
#[derive(Debug, Default)]
struct Now {
    line: TaskLine,
    /// The state that lasts, since when, and the wake-up that began it.
    state: Option<(u64, State, Option<usize>)>,
    /// The last wake-up, until it has run.
    pending: Option<usize>,
    last_cpu: Option<Cpu>,
}

impl Now {
    /// Ends the state that lasted; a sleep notes which wake-up ended it.
    fn close(&mut self, time: u64, ended_by: Option<usize>) {
        if let Some((start, state, begun_by)) = self.state.take() {
            let wake = if matches!(state, State::Blocked { .. }) { ended_by } else { begun_by };
            self.line.intervals.push(Interval { start, end: time, state, wake });
        }
    }

    fn has_prio(&mut self, time: u64, prio: i16) {
        match self.line.prios.last_mut() {
            Some((_, last)) if *last == prio => {}
            Some((since, last)) if *since == time => *last = prio,
            _ => self.line.prios.push((time, prio)),
        }
    }
}

struct Builder {
    tasks: BTreeMap<Tid, Now>,
    out: Timeline,
    /// Whether `sched_waking` is in the trace; if not, `sched_wakeup` stands in for it.
    has_waking: bool,
    /// How deep each CPU is in interrupts, and since when.
    depth: Vec<(u32, u64)>,
    /// From when on the trace has everything of each CPU.
    from: Vec<u64>,
}

impl Builder {
    fn new(trace: &Trace) -> Self {
        let cpus = trace.coverage().len();
        let out = Timeline {
            cpus: vec![Vec::new(); cpus],
            interrupts: vec![Vec::new(); cpus],
            span: trace.span().unwrap_or_default(),
            ..Timeline::default()
        };
        let has_waking = trace.events().iter().any(|event| matches!(event.what, EventKind::Waking(_)));
        let from = trace.coverage().iter().map(|cpu| cpu.from.max(out.span.0)).collect();
        Self { tasks: BTreeMap::new(), out, has_waking, depth: vec![(0, 0); cpus], from }
    }

    fn take(&mut self, event: &Event) {
        self.current(event);
        match event.what {
            EventKind::Switch { .. } => self.switch(event),
            EventKind::Waking(wakee) => self.waking(event, wakee, false),
            EventKind::Wakeup(wakee) => self.wakeup(event, wakee),
            EventKind::WakeupNew(wakee) => {
                self.waking(event, wakee, true);
                self.wakeup(event, wakee);
            }
            EventKind::Migrate { tid, from, to } => {
                let now = self.tasks.entry(tid).or_default();
                now.line.migrations.push((event.time, from, to));
                if let Some((_, State::Runnable { cpu, .. }, _)) = &mut now.state {
                    *cpu = to;
                }
            }
            EventKind::PriorityInherited { tid, old, new } => {
                let now = self.tasks.entry(tid).or_default();
                now.line.inherited.push((event.time, old, new));
                now.has_prio(event.time, new);
            }
            EventKind::IrqEntry { .. } | EventKind::SoftIrqEntry { .. } => self.interrupt(event, true),
            EventKind::IrqExit { .. } | EventKind::SoftIrqExit { .. } => self.interrupt(event, false),
            _ => {}
        }
    }

    /// Every event says which task is current on its CPU. Who is current first was there since the
    /// trace began; where it is not whom the last switch brought, a switch is missing: it was lost,
    /// filtered out, or the kernel hides the tasks of a hypervisor's agent.
    fn current(&mut self, event: &Event) {
        let Event { time, tid, cpu, .. } = *event;
        let turns = &mut self.out.cpus[usize::from(cpu)];
        let since = match turns.last_mut() {
            Some(turn) if turn.tid == tid => return,
            None => self.from[usize::from(cpu)].min(time),
            Some(turn) => {
                turn.end = time;
                self.out.unseen.push((time, cpu));
                if let Some(gone) = self.tasks.get_mut(&turn.tid)
                    && matches!(gone.state, Some((_, State::Running { cpu: on }, _)) if on == cpu)
                {
                    gone.close(time, None);
                }
                time
            }
        };
        let prio = self.tasks.get(&tid).and_then(|now| now.line.prio(time)).unwrap_or(120);
        self.out.cpus[usize::from(cpu)].push(CpuInterval { start: since, end: time, tid, prio, left: None });
        if tid != 0 {
            let now = self.tasks.entry(tid).or_default();
            now.close(time, None);
            let free_since = now.line.intervals.last().map_or(0, |last| last.end);
            now.state = Some((since.max(free_since), State::Running { cpu }, None));
            now.pending = None;
            now.last_cpu = Some(cpu);
        }
    }

    fn switch(&mut self, event: &Event) {
        let EventKind::Switch { prev, next, prev_prio, next_prio, prev_state } = event.what else { return };
        let (time, cpu) = (event.time, event.cpu);
        let turns = &mut self.out.cpus[usize::from(cpu)];
        if let Some(turn) = turns.last_mut() {
            (turn.end, turn.left) = (time, Some(prev_state));
        }
        turns.push(CpuInterval { start: time, end: time, tid: next, prio: next_prio, left: None });
        if prev != 0 {
            let now = self.tasks.entry(prev).or_default();
            let came = now.state.map_or(time, |(since, ..)| since);
            now.close(time, None);
            // No event says when a task changes its own priority: it is taken to be the first thing
            // that it did when it came to run, unless it was seen with the old one since.
            let since = now.line.prios.last().map_or(came, |(seen, _)| came.max(*seen));
            now.has_prio(since, prev_prio);
            now.last_cpu = Some(cpu);
            if prev_state.runnable() {
                now.line.preemptions += 1;
                now.state = Some((time, State::Runnable { cpu, since: Since::Preempted }, None));
            } else if !prev_state.dead() {
                let uninterruptible = prev_state.uninterruptible();
                now.state = Some((time, State::Blocked { uninterruptible }, None));
            }
        }
        if next != 0 {
            let now = self.tasks.entry(next).or_default();
            let woken = now.pending.take();
            now.close(time, None);
            now.has_prio(time, next_prio);
            now.line.switches += 1;
            now.last_cpu = Some(cpu);
            now.state = Some((time, State::Running { cpu }, woken));
            if let Some(wake) = woken {
                self.out.wakes[wake].ran = Some((time, cpu));
            }
        }
    }

    fn waking(&mut self, event: &Event, wakee: Wakee, new: bool) {
        let index = self.out.wakes.len();
        let now = self.tasks.entry(wakee.tid).or_default();
        now.has_prio(event.time, wakee.prio);
        let early = matches!(now.state, Some((_, State::Running { .. } | State::Runnable { .. }, _)));
        if !early {
            now.close(event.time, Some(index));
            let since = if new { Since::New } else { Since::Woken };
            now.state = Some((event.time, State::Runnable { cpu: wakee.cpu, since }, Some(index)));
        }
        now.pending = Some(index);
        self.out.wakes.push(Wake {
            time: event.time,
            waker: event.tid,
            waker_cpu: event.cpu,
            interrupt: event.context.interrupt(),
            soft: event.context.soft_irq() && !event.context.hard_irq(),
            wakee: wakee.tid,
            prio: wakee.prio,
            prev_cpu: now.last_cpu.unwrap_or(wakee.cpu),
            target_cpu: None,
            ran: None,
            early,
            new,
        });
    }

    fn wakeup(&mut self, event: &Event, wakee: Wakee) {
        if !self.has_waking {
            self.waking(event, wakee, false);
        }
        let Some(now) = self.tasks.get_mut(&wakee.tid) else { return };
        if let Some(wake) = now.pending {
            self.out.wakes[wake].target_cpu = Some(wakee.cpu);
        }
        if let Some((_, State::Runnable { cpu, since: Since::Woken | Since::New }, _)) = &mut now.state {
            *cpu = wakee.cpu;
        }
    }

    fn interrupt(&mut self, event: &Event, enters: bool) {
        let (depth, since) = &mut self.depth[usize::from(event.cpu)];
        if enters {
            if *depth == 0 {
                *since = event.time;
            }
            *depth += 1;
        } else if *depth > 0 {
            *depth -= 1;
            if *depth == 0 {
                self.out.interrupts[usize::from(event.cpu)].push((*since, event.time));
            }
        }
    }

    fn finish(mut self) -> Timeline {
        let end = self.out.span.1;
        for turns in &mut self.out.cpus {
            if let Some(turn) = turns.last_mut() {
                turn.end = end;
            }
        }
        for (tid, mut now) in self.tasks.into_iter().filter(|(tid, _)| *tid != 0) {
            now.close(end, None);
            self.out.tasks.insert(tid, now.line);
        }
        self.out
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
