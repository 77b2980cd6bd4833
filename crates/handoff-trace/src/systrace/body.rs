//! The text of an event: `key=value` pairs as the kernel prints them, or what `trace-cmd report` makes of
//! some.

use crate::event::{Cpu, EventKind, LeftAs, MAX_CPUS, TF_ONE_WAY, Tid, Wakee};

/// What the text of an event says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// An event, and the names of tasks in it.
    Event { what: EventKind, names: [Option<(Tid, &'a str)>; 2] },
    /// What a program wrote to `trace_marker`.
    Marker(&'a str),
    /// An event that no question is about.
    Unused,
    /// An event that should be understood and is not.
    Damaged,
}

impl<'a> Body<'a> {
    pub(super) fn parse(function: &str, body: &'a str) -> Self {
        let read = match function {
            "sched_switch" => switch(body).or_else(|| short_switch(body)),
            "sched_waking" => wake(body, EventKind::Waking),
            "sched_wakeup" => wake(body, EventKind::Wakeup),
            "sched_wakeup_new" => wake(body, EventKind::WakeupNew),
            "sched_migrate_task" => named(body).and_then(|(name, tid, rest)| {
                let (from, to) = (cpu(rest, "orig_cpu")?, cpu(rest, "dest_cpu")?);
                Some((EventKind::Migrate { tid, from, to }, [Some((tid, name)), None]))
            }),
            "sched_pi_setprio" => named(body).and_then(|(name, tid, rest)| {
                let (old, new) = (number(rest, "oldprio")?, number(rest, "newprio")?);
                Some((EventKind::PriorityInherited { tid, old, new }, [Some((tid, name)), None]))
            }),
            "sched_process_fork" => fork(body),
            "sched_process_exec" => {
                // The file's name comes first, and may have anything in it.
                let rest = body.rfind(" pid=").map_or(body, |at| &body[at..]);
                tid(rest, "pid").map(|tid| (EventKind::Exec { tid }, [None; 2]))
            }
            "sched_process_exit" => {
                named(body).map(|(name, tid, _)| (EventKind::Exit { tid }, [Some((tid, name)), None]))
            }
            "irq_handler_entry" => number(body, "irq").map(|irq| (EventKind::IrqEntry { irq }, [None; 2])),
            "irq_handler_exit" => number(body, "irq").map(|irq| (EventKind::IrqExit { irq }, [None; 2])),
            "softirq_entry" => {
                number(body, "vec").map(|vector| (EventKind::SoftIrqEntry { vector }, [None; 2]))
            }
            "softirq_exit" => {
                number(body, "vec").map(|vector| (EventKind::SoftIrqExit { vector }, [None; 2]))
            }
            "cpu_idle" => number::<u32>(body, "state").zip(cpu(body, "cpu_id")).map(|(state, cpu)| {
                // The way out is state (u32)-1.
                (EventKind::Idle { cpu, state: u8::try_from(state).ok() }, [None; 2])
            }),
            "cpu_frequency" => number(body, "state")
                .zip(cpu(body, "cpu_id"))
                .map(|(khz, cpu)| (EventKind::Frequency { cpu, khz }, [None; 2])),
            "binder_transaction" => binder(body),
            "binder_transaction_received" => number(body, "transaction")
                .map(|debug_id| (EventKind::BinderReceived { debug_id }, [None; 2])),
            "tracing_mark_write" => return Self::Marker(body),
            // Which function it was is a word of its own there.
            "print" | "bprint" => return Self::Marker(body.split_once(": ").map_or(body, |(_, text)| text)),
            _ => return Self::Unused,
        };
        read.map_or(Self::Damaged, |(what, names)| Self::Event { what, names })
    }
}

/// An event and the names in it.
type Read<'a> = Option<(EventKind, [Option<(Tid, &'a str)>; 2])>;

/// The word behind `key=`, at the beginning or after a space.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.match_indices(key).find_map(|(at, _)| {
        let begins = text[..at].chars().next_back().is_none_or(|before| before == ' ');
        let value = text[at + key.len()..].strip_prefix('=')?;
        begins.then(|| value.split(' ').next().unwrap_or_default())
    })
}

fn number<T: std::str::FromStr>(text: &str, key: &str) -> Option<T> {
    value(text, key)?.parse().ok()
}

fn tid(text: &str, key: &str) -> Option<Tid> {
    number(text, key).filter(|tid| *tid >= 0)
}

fn cpu(text: &str, key: &str) -> Option<Cpu> {
    number(text, key).filter(|cpu| *cpu < MAX_CPUS)
}

/// `comm=NAME pid=N`, and the text from ` pid=` on. A name may have spaces and even keys in it, so the last
/// of them counts.
fn named(body: &str) -> Option<(&str, Tid, &str)> {
    let (name, rest) = body.split_at(body.rfind(" pid=")?);
    Some((name.strip_prefix("comm=")?, tid(rest, "pid")?, rest))
}

fn wake(body: &str, make: impl Fn(Wakee) -> EventKind) -> Read<'_> {
    if let Some((name, tid, rest)) = named(body) {
        let wakee = Wakee { tid, cpu: cpu(rest, "target_cpu")?, prio: number(rest, "prio")? };
        return Some((make(wakee), [Some((tid, name)), None]));
    }
    // `name:tid [prio] CPU:001`, with `success=1` in between on old kernels.
    let (task, cpu) = body.rsplit_once(" CPU:")?;
    let task = task.trim_end().trim_end_matches("success=1").trim_end();
    let (name, tid, prio) = short_task(task)?;
    let cpu = cpu.trim().parse().ok().filter(|cpu| *cpu < MAX_CPUS)?;
    Some((make(Wakee { tid, cpu, prio }), [Some((tid, name)), None]))
}

fn switch(body: &str) -> Read<'_> {
    let (before, after) = body.rsplit_once(" ==> ")?;
    let side = |text: &'_ str, names: [&str; 3]| -> Option<(usize, Tid, i16)> {
        let at = text.rfind(names[0])?;
        Some((at, tid(&text[at..], names[1])?, number(&text[at..], names[2])?))
    };
    let (end, prev, prev_prio) = side(before, [" prev_pid=", "prev_pid", "prev_prio"])?;
    let prev_name = before[..end].strip_prefix("prev_comm=")?;
    let prev_state = state(value(&before[end..], "prev_state")?)?;
    let (end, next, next_prio) = side(after, [" next_pid=", "next_pid", "next_prio"])?;
    let next_name = after[..end].strip_prefix("next_comm=")?;
    let what = EventKind::Switch { prev, next, prev_prio, next_prio, prev_state };
    Some((what, [Some((prev, prev_name)), Some((next, next_name))]))
}

/// As `trace-cmd report` prints it: `name:tid [prio] S ==> name:tid [prio]`.
fn short_switch(body: &str) -> Read<'_> {
    let (before, after) = body.rsplit_once(" ==> ")?;
    let (before, left_as) = before.rsplit_once(' ')?;
    let (prev_name, prev, prev_prio) = short_task(before)?;
    let (next_name, next, next_prio) = short_task(after)?;
    let what = EventKind::Switch { prev, next, prev_prio, next_prio, prev_state: state(left_as)? };
    Some((what, [Some((prev, prev_name)), Some((next, next_name))]))
}

/// `name:tid [prio]`.
fn short_task(text: &str) -> Option<(&str, Tid, i16)> {
    let (task, prio) = text.trim().strip_suffix(']')?.rsplit_once(" [")?;
    let (name, tid) = task.rsplit_once(':')?;
    Some((name, tid.parse().ok().filter(|tid| *tid >= 0)?, prio.parse().ok()?))
}

/// The letters of `prev_state`, as `TASK_STATE_TO_CHAR_STR` has them; `+` says preempted.
fn state(text: &str) -> Option<LeftAs> {
    let mut bits = 0;
    for letter in text.chars() {
        bits |= match letter {
            'R' | '|' => 0,
            'S' => 0x01,
            'D' => 0x02,
            'T' => 0x04,
            't' => 0x08,
            'X' | 'x' => 0x10,
            'Z' => 0x20,
            'P' => 0x40,
            'I' => 0x80,
            // Qualities of a sleep on old kernels: wakes for signals only, is being woken, no load, new.
            'K' | 'W' | 'N' | 'n' => 0,
            '+' => 0x100,
            _ => return None,
        };
    }
    Some(LeftAs(bits))
}

fn fork(body: &str) -> Read<'_> {
    let (before, after) = body.split_once(" child_comm=")?;
    let (parent_name, parent, _) = named(before)?;
    let (child_name, rest) = after.split_at(after.rfind(" child_pid=")?);
    let child = tid(rest, "child_pid")?;
    Some((EventKind::Fork { parent, child }, [Some((parent, parent_name)), Some((child, child_name))]))
}

fn binder(body: &str) -> Read<'_> {
    let flags = value(body, "flags")?.strip_prefix("0x")?;
    let what = EventKind::BinderTransaction {
        debug_id: number(body, "transaction")?,
        reply: number::<i64>(body, "reply")? != 0,
        oneway: i64::from_str_radix(flags, 16).ok()? & TF_ONE_WAY != 0,
    };
    Some((what, [None; 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(function: &str, body: &'static str) -> (EventKind, [Option<(Tid, &'static str)>; 2]) {
        match Body::parse(function, body) {
            Body::Event { what, names } => (what, names),
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn switches_of_the_kernel_and_of_trace_cmd_are_one() {
        let kernel = what(
            "sched_switch",
            "prev_comm=a prev_pid=1 b prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=swapper/1 next_pid=0 next_prio=120",
        );
        let prev_state = LeftAs(0x100);
        let expected = EventKind::Switch { prev: 7, next: 0, prev_prio: 120, next_prio: 120, prev_state };
        assert_eq!(kernel, (expected, [Some((7, "a prev_pid=1 b")), Some((0, "swapper/1"))]));
        let short = what("sched_switch", "memfd:x:7 [120] R+ ==> swapper/1:0 [120]");
        assert_eq!(short, (expected, [Some((7, "memfd:x")), Some((0, "swapper/1"))]));
    }

    #[test]
    fn wake_ups_of_all_kernels_are_one() {
        let expected = EventKind::Wakeup(Wakee { tid: 9, cpu: 1, prio: 98 });
        for body in [
            "comm=my task pid=9 prio=98 target_cpu=001",
            "comm=my task pid=9 prio=98 success=1 target_cpu=001",
            "my task:9 [98] CPU:001",
            "my task:9 [98] success=1 CPU:001",
        ] {
            assert_eq!(what("sched_wakeup", body), (expected, [Some((9, "my task")), None]), "{body}");
        }
    }

    #[test]
    fn the_others_are_read_as_the_kernel_prints_them() {
        let (fork, names) = what("sched_process_fork", "comm=sh pid=3 child_comm=sh child_pid=4");
        assert_eq!((fork, names[1]), (EventKind::Fork { parent: 3, child: 4 }, Some((4, "sh"))));
        assert_eq!(
            what("sched_process_exec", "filename=/bin/a pid=1 pid=5 old_pid=5").0,
            EventKind::Exec { tid: 5 }
        );
        assert_eq!(what("cpu_idle", "state=4294967295 cpu_id=1").0, EventKind::Idle { cpu: 1, state: None });
        assert_eq!(what("softirq_entry", "vec=3 [action=NET_RX]").0, EventKind::SoftIrqEntry { vector: 3 });
        assert_eq!(
            what("sched_migrate_task", "comm=x pid=5 prio=120 orig_cpu=0 dest_cpu=1").0,
            EventKind::Migrate { tid: 5, from: 0, to: 1 }
        );
        assert_eq!(
            what("sched_pi_setprio", "comm=x pid=5 oldprio=120 newprio=0").0,
            EventKind::PriorityInherited { tid: 5, old: 120, new: 0 }
        );
        let binder = "transaction=77 dest_node=3 dest_proc=9 dest_thread=0 reply=0 flags=0x11 code=0x1";
        let (debug_id, reply, oneway) = (77, false, true);
        assert_eq!(
            what("binder_transaction", binder).0,
            EventKind::BinderTransaction { debug_id, reply, oneway }
        );
        assert_eq!(
            what("binder_transaction_received", "transaction=77").0,
            EventKind::BinderReceived { debug_id: 77 }
        );
        assert_eq!(Body::parse("tracing_mark_write", "B|1|x: y"), Body::Marker("B|1|x: y"));
        assert_eq!(Body::parse("print", "tracing_mark_write: E|1"), Body::Marker("E|1"));
        assert_eq!(Body::parse("workqueue_execute_start", "anything"), Body::Unused);
    }

    #[test]
    fn damage_is_told_from_what_is_not_used() {
        for (function, body) in [
            ("sched_switch", "prev_comm=a"),
            (
                "sched_switch",
                "prev_comm=a prev_pid=-1 prev_prio=1 prev_state=R ==> next_comm=b next_pid=2 next_prio=3",
            ),
            (
                "sched_switch",
                "prev_comm=a prev_pid=1 prev_prio=1 prev_state=? ==> next_comm=b next_pid=2 next_prio=3",
            ),
            ("sched_waking", "comm=a pid=1 prio=120 target_cpu=70000"),
            ("sched_waking", "CPU:"),
            ("binder_transaction", "transaction=1 reply=0 flags=x"),
            ("cpu_idle", "state=-1 cpu_id=0"),
        ] {
            assert_eq!(Body::parse(function, body), Body::Damaged, "{function}: {body}");
        }
    }
}
