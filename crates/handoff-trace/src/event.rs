//! The events that Handoff understands, small and typed, whatever kernel they came from.

use serde::{Deserialize, Serialize};

/// The number of a task (a thread; the kernel's `pid`). 0 is the idle task of a CPU.
pub type Tid = i32;

/// A CPU, as the kernel numbers them.
pub type Cpu = u16;

/// More than any machine has: what a file says beyond is damage.
pub(crate) const MAX_CPUS: Cpu = 8192;

/// A flag of a Binder transaction, `enum transaction_flags` of the driver's UAPI.
pub(crate) const TF_ONE_WAY: i64 = 1;

/// One event of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of the trace's clock (`mono`, unless another was asked for).
    pub time: u64,
    /// The task that was current on the CPU when it happened.
    pub tid: Tid,
    /// The CPU on which it happened.
    pub cpu: Cpu,
    /// In what context it happened.
    pub context: Context,
    pub what: EventKind,
}

/// The kernel's `common_flags`: in what context an event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Context(pub u8);

impl Context {
    pub fn hard_irq(self) -> bool {
        self.0 & 0x08 != 0
    }

    pub fn soft_irq(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// In any interrupt: the current task had nothing to do with it.
    pub fn interrupt(self) -> bool {
        self.hard_irq() || self.soft_irq()
    }
}

/// What happened. Priorities are the kernel's: 0 to 98 real-time (0 the highest), 99 to 139 fair
/// (120 is nice 0), -1 deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// `sched_switch`: the CPU went from one task to another.
    Switch {
        prev: Tid,
        next: Tid,
        /// The priority of who left.
        prev_prio: i16,
        /// The priority of who came.
        next_prio: i16,
        prev_state: LeftAs,
    },
    /// `sched_waking`: the current task (or an interrupt) begins to wake another.
    Waking(Wakee),
    /// `sched_wakeup`: the woken task can run, on the CPU chosen for it.
    Wakeup(Wakee),
    /// `sched_wakeup_new`: a new task can run for the first time.
    WakeupNew(Wakee),
    /// `sched_migrate_task`: a task that does not run moves to another CPU's queue.
    Migrate { tid: Tid, from: Cpu, to: Cpu },
    /// `sched_pi_setprio`: a priority is inherited through a kernel lock, or given back.
    PriorityInherited { tid: Tid, old: i16, new: i16 },
    /// `sched_process_fork`.
    Fork {
        /// The task that was there.
        parent: Tid,
        child: Tid,
    },
    /// `sched_process_exec`.
    Exec {
        /// The task that became another program.
        tid: Tid,
    },
    /// `sched_process_exit`.
    Exit { tid: Tid },
    /// `irq_handler_entry`.
    IrqEntry { irq: i32 },
    /// `irq_handler_exit`.
    IrqExit { irq: i32 },
    /// `softirq_entry`.
    SoftIrqEntry {
        /// Its vector: 1 timer, 2 network out, 3 network in, 7 scheduler, 9 RCU.
        vector: u8,
    },
    /// `softirq_exit`.
    SoftIrqExit { vector: u8 },
    /// `cpu_idle`: a CPU goes into an idle state or comes out of one.
    Idle {
        cpu: Cpu,
        /// The state, or none on the way out.
        state: Option<u8>,
    },
    /// `cpu_frequency`.
    Frequency {
        cpu: Cpu,
        /// Its new frequency, in kHz.
        khz: u32,
    },
    /// `binder_transaction`: the current task sends one, or a reply.
    BinderTransaction {
        /// The number by which its other events are joined.
        debug_id: i32,
        reply: bool,
        /// Nobody waits for a reply (`TF_ONE_WAY`).
        oneway: bool,
    },
    /// `binder_transaction_received`: the current task takes one, or a reply, out of its queue.
    BinderReceived {
        /// The number of that transaction or reply.
        debug_id: i32,
    },
    /// What a program wrote to `trace_marker`: an index for [`crate::Trace::text`].
    Marker(u32),
    /// An event with no type of its own here: an index for [`crate::Trace::other`].
    Other(u32),
}

/// The task of a wake-up event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakee {
    pub tid: Tid,
    /// The CPU that it was on (in `sched_waking`) or that was chosen (in `sched_wakeup`).
    pub cpu: Cpu,
    pub prio: i16,
}

/// The state in which a task left the CPU, `prev_state` of `sched_switch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftAs(pub u16);

impl LeftAs {
    /// It still wanted to run: it was preempted, or it yielded.
    pub fn runnable(self) -> bool {
        // Bits above the low eight say "preempted" (0x100 now, 0x400 to 0x1000 on old kernels) or
        // qualify a sleep; the low eight are the sleeps themselves.
        self.0 & 0xff == 0
    }

    pub fn dead(self) -> bool {
        self.0 & 0x30 != 0
    }

    /// It waits and cannot be interrupted, as in a disk read or a kernel mutex.
    pub fn uninterruptible(self) -> bool {
        self.0 & 0x02 != 0
    }
}

/// A task's priority as people say it.
pub fn priority_text(prio: i16) -> String {
    match prio {
        ..=-1 => "deadline".to_owned(),
        0..=98 => format!("real-time {}", 99 - prio),
        99 => "the kernel's stop task".to_owned(),
        _ => format!("nice {}", prio - 120),
    }
}

/// Whether the scheduling class of that priority is the fair one.
pub fn is_fair(prio: i16) -> bool {
    prio >= 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_old_and_new_kernels_are_told_apart() {
        for runnable in [0, 0x100, 0x400, 0x1000] {
            assert!(LeftAs(runnable).runnable());
        }
        for asleep in [1, 2, 0x80, 0x82, 0x102] {
            assert!(!LeftAs(asleep).runnable(), "{asleep:#x}");
        }
        assert!(LeftAs(0x10).dead() && LeftAs(0x20).dead() && !LeftAs(2).dead());
    }

    #[test]
    fn priorities_read_as_people_say_them() {
        assert_eq!(priority_text(0), "real-time 99");
        assert_eq!(priority_text(98), "real-time 1");
        assert_eq!(priority_text(110), "nice -10");
        assert_eq!(priority_text(-1), "deadline");
    }

    #[test]
    fn an_event_stays_small() {
        // A trace of ten million events must fit beside the workload.
        assert!(size_of::<Event>() <= 32, "{}", size_of::<Event>());
    }
}
