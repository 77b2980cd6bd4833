//! The critical path: what a transaction was waiting for at each moment.
//!
//! It is followed back from the end. While the caller runs or waits for a CPU, that is what the
//! transaction does. While it sleeps, the task that woke it was working towards that wake-up; so
//! the sleep is replaced by what the waker did meanwhile, and so on down the chain. A caller that waits
//! with a time limit, looks and waits on was waiting for the task that woke it in the end all along.

use serde::Serialize;

use super::Window;
use crate::event::{Cpu, Tid};
use crate::model::timeline::{Since, State, Timeline};

/// Chains of wakers are followed so deep; a longer one is a loop of tasks that wake each other.
const MAX_DEPTH: usize = 24;

/// A caller that runs for less than this between two sleeps has only looked whether its reply is there.
const LOOK_NS: u64 = 1_000_000;

/// A piece of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    /// When it began, in nanoseconds.
    pub start: u64,
    pub end: u64,
    /// The task that the transaction depended on.
    pub tid: Tid,
    #[serde(flatten)]
    pub doing: TaskActivity,
    /// Which task was sleeping until this one would wake it; none on the caller's own part.
    pub waited_for_by: Option<Tid>,
}

impl Step {
    /// How long it lasted, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// What a task on the critical path did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "doing")]
pub enum TaskActivity {
    Running {
        cpu: Cpu,
    },
    /// It waited for a CPU.
    Waiting {
        cpu: Cpu,
        /// How it came to wait.
        since: Since,
    },
    /// It slept until an interrupt (a timer, a device) woke it.
    Sleeping,
    /// The trace does not say.
    Unknown,
}

/// The steps from the start of the window to its end, without gaps.
pub(super) fn critical_path(timeline: &Timeline, window: Window) -> Vec<Step> {
    let mut walk = Walk { timeline, steps: Vec::new() };
    walk.follow(window.caller, window.start, window.end, None, 0);
    walk.steps.reverse();
    walk.steps
}

struct Walk<'a> {
    timeline: &'a Timeline,
    /// Newest first.
    steps: Vec<Step>,
}

impl Walk<'_> {
    /// Adds what `tid` did from `start` to `end`, newest first.
    fn follow(&mut self, tid: Tid, start: u64, end: u64, waited_for_by: Option<Tid>, depth: usize) {
        let intervals = self.timeline.tasks.get(&tid).map_or(&[][..], |line| line.between(start, end));
        let mut upto = end;
        // Whose wake-up ended the wait that an earlier sleep of the caller may have been part of, and for
        // how long the caller ran since.
        let (mut awaits, mut ran) = (None, 0);
        for interval in intervals.iter().rev() {
            let (from, to) = (interval.start.max(start), interval.end.min(upto));
            if to < upto {
                self.step(tid, to, upto, TaskActivity::Unknown, waited_for_by);
            }
            match interval.state {
                State::Running { cpu } => {
                    ran += to.saturating_sub(from);
                    self.step(tid, from, to, TaskActivity::Running { cpu }, waited_for_by);
                }
                State::Runnable { since, .. } => self.waits(tid, from, to, since, waited_for_by),
                State::Blocked { .. } => {
                    let answers = interval.wake.is_some_and(|wake| self.timeline.answers(wake));
                    let wake = interval.wake.map(|wake| self.timeline.wakes[wake]);
                    match wake {
                        // The sleep goes on past the window: what will end it says nothing of now.
                        _ if interval.end > end => {
                            self.step(tid, from, to, TaskActivity::Unknown, waited_for_by)
                        }
                        Some(wake)
                            if (!wake.interrupt || answers) && wake.waker != 0 && depth < MAX_DEPTH =>
                        {
                            (awaits, ran) = ((depth == 0).then_some(wake.waker), 0);
                            self.follow(wake.waker, from, to, Some(tid), depth + 1);
                        }
                        Some(_) if let Some(waker) = awaits.filter(|_| ran < LOOK_NS) => {
                            ran = 0;
                            self.follow(waker, from, to, Some(tid), depth + 1);
                        }
                        Some(_) => self.step(tid, from, to, TaskActivity::Sleeping, waited_for_by),
                        None => self.step(tid, from, to, TaskActivity::Unknown, waited_for_by),
                    }
                }
            }
            upto = from;
        }
        self.step(tid, start, upto, TaskActivity::Unknown, waited_for_by);
    }

    /// A wait for a CPU, split where the task was moved to another CPU's queue.
    fn waits(&mut self, tid: Tid, start: u64, end: u64, since: Since, waited_for_by: Option<Tid>) {
        let line = &self.timeline.tasks[&tid];
        let moved = |at: &&(u64, Cpu, Cpu)| at.0 > start && at.0 < end;
        let (mut upto, mut moved_from) = (end, None);
        for (time, from, to) in line.migrations.iter().rev().filter(moved) {
            self.step(tid, *time, upto, TaskActivity::Waiting { cpu: *to, since }, waited_for_by);
            (upto, moved_from) = (*time, Some(*from));
        }
        let cpu = moved_from.or_else(|| {
            line.between(start, end).iter().find_map(|interval| match interval.state {
                State::Runnable { cpu, .. } if interval.start <= start => Some(cpu),
                _ => None,
            })
        });
        let doing = cpu.map_or(TaskActivity::Unknown, |cpu| TaskActivity::Waiting { cpu, since });
        self.step(tid, start, upto, doing, waited_for_by);
    }

    fn step(&mut self, tid: Tid, start: u64, end: u64, doing: TaskActivity, waited_for_by: Option<Tid>) {
        if start < end {
            self.steps.push(Step { start, end, tid, doing, waited_for_by });
        }
    }
}
