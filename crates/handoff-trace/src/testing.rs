//! Histories written by hand, for tests.

use crate::event::{Context, Cpu, Event, EventKind, LeftAs, Tid, Wakee};
use crate::trace::Trace;

pub(crate) const NICE_0: i16 = 120;

pub(crate) fn event(time: u64, cpu: Cpu, tid: Tid, what: EventKind) -> Event {
    Event { time, tid, cpu, context: Context(0), what }
}

fn switch(time: u64, cpu: Cpu, prev: Tid, next: Tid, state: u16) -> Event {
    let prio = |_| NICE_0;
    let (prev_prio, next_prio) = (prio(prev), prio(next));
    event(time, cpu, prev, EventKind::Switch { prev, next, prev_prio, next_prio, prev_state: LeftAs(state) })
}

/// `prev` goes to sleep and `next` comes.
pub(crate) fn blocks(time: u64, cpu: Cpu, prev: Tid, next: Tid) -> Event {
    switch(time, cpu, prev, next, if prev == 0 { 0 } else { 1 })
}

/// `next` takes the place of `prev`, which wanted to go on.
pub(crate) fn preempts(time: u64, cpu: Cpu, prev: Tid, next: Tid) -> Event {
    switch(time, cpu, prev, next, 0x100)
}

/// The same event with other priorities for who leaves and who comes.
pub(crate) fn with_prios(mut event: Event, prev: i16, next: i16) -> Event {
    if let EventKind::Switch { prev_prio, next_prio, .. } = &mut event.what {
        (*prev_prio, *next_prio) = (prev, next);
    }
    event
}

pub(crate) fn waking(time: u64, cpu: Cpu, waker: Tid, tid: Tid, target: Cpu) -> Event {
    event(time, cpu, waker, EventKind::Waking(Wakee { tid, cpu: target, prio: NICE_0 }))
}

pub(crate) fn wakeup(time: u64, cpu: Cpu, waker: Tid, tid: Tid, target: Cpu) -> Event {
    event(time, cpu, waker, EventKind::Wakeup(Wakee { tid, cpu: target, prio: NICE_0 }))
}

pub(crate) fn migrate(time: u64, cpu: Cpu, current: Tid, tid: Tid, from: Cpu, to: Cpu) -> Event {
    event(time, cpu, current, EventKind::Migrate { tid, from, to })
}

/// A trace of two CPUs whose tasks are called after their numbers.
pub(crate) fn trace(events: Vec<Event>) -> Trace {
    Trace::from_events(events, (1..10).map(|tid| (tid, format!("task-{tid}"))), 2)
}
