//! Small histories written by hand.

use super::*;
use crate::event::Context;
use crate::testing::{blocks, event, migrate, preempts, trace, wakeup, waking, with_prios};

#[test]
fn a_hand_off_is_split_into_its_states() {
    let timeline = Timeline::of(&trace(vec![
        blocks(10, 0, 0, 1),
        blocks(15, 1, 2, 0),
        waking(20, 0, 1, 2, 1),
        wakeup(22, 0, 1, 2, 1),
        blocks(30, 1, 0, 2),
        blocks(50, 1, 2, 0),
    ]));
    let intervals: Vec<_> =
        timeline.tasks[&2].intervals.iter().map(|i| (i.start, i.end, i.state, i.wake)).collect();
    assert_eq!(
        intervals,
        [
            // Who leaves a CPU first had it since the trace began.
            (10, 15, State::Running { cpu: 1 }, None),
            (15, 20, State::Blocked { uninterruptible: false }, Some(0)),
            (20, 30, State::Runnable { cpu: 1, since: Since::Woken }, Some(0)),
            (30, 50, State::Running { cpu: 1 }, Some(0)),
            (50, 50, State::Blocked { uninterruptible: false }, None),
        ]
    );
    let wake = timeline.wakes[0];
    assert_eq!((wake.waker, wake.waker_cpu, wake.prev_cpu), (1, 0, 1));
    assert_eq!((wake.target_cpu, wake.ran, wake.latency()), (Some(1), Some((30, 1)), Some(10)));
    assert_eq!(timeline.turns(1, 20, 40).iter().map(|turn| turn.tid).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn a_task_woken_before_it_left_has_no_latency() {
    let timeline = Timeline::of(&trace(vec![
        blocks(10, 0, 0, 2),
        waking(20, 1, 1, 2, 0),
        wakeup(21, 1, 1, 2, 0),
        blocks(40, 0, 2, 0),
    ]));
    assert!(timeline.wakes[0].early);
    assert_eq!(timeline.wakes[0].latency(), None);
    assert_eq!(timeline.tasks[&2].intervals[0].state, State::Running { cpu: 0 });
}

#[test]
fn preemption_and_migration_are_counted() {
    let timeline = Timeline::of(&trace(vec![
        blocks(10, 0, 0, 2),
        preempts(20, 0, 2, 3),
        migrate(25, 0, 3, 2, 0, 1),
        blocks(30, 1, 0, 2),
    ]));
    let line = &timeline.tasks[&2];
    assert_eq!((line.preemptions, line.migrations.as_slice(), line.switches), (1, &[(25, 0, 1)][..], 2));
    assert_eq!(line.intervals[1].state, State::Runnable { cpu: 1, since: Since::Preempted });
    assert_eq!(line.between(22, 24).len(), 1);
}

#[test]
fn nested_interrupts_are_one_span() {
    let irq = |time, what| event(time, 0, 1, what);
    let timeline = Timeline::of(&trace(vec![
        irq(10, EventKind::SoftIrqEntry { vector: 1 }),
        irq(12, EventKind::IrqEntry { irq: 5 }),
        irq(13, EventKind::IrqExit { irq: 5 }),
        irq(20, EventKind::SoftIrqExit { vector: 1 }),
        irq(21, EventKind::IrqExit { irq: 9 }),
        irq(30, EventKind::IrqEntry { irq: 5 }),
    ]));
    assert_eq!(timeline.interrupts[0], [(10, 20)]);
    assert_eq!(timeline.interrupt_time(0, 15, 40), 5);
}

#[test]
fn without_waking_events_wakeups_stand_in() {
    let timeline = Timeline::of(&trace(vec![
        blocks(15, 1, 2, 0),
        Event { context: Context(8), ..wakeup(22, 0, 1, 2, 1) },
        blocks(30, 1, 0, 2),
    ]));
    assert_eq!(timeline.wakes.len(), 1);
    assert!(timeline.wakes[0].interrupt);
    assert_eq!(timeline.wakes[0].latency(), Some(8));
}

#[test]
fn a_missing_switch_is_noticed_at_the_next_event() {
    let timeline = Timeline::of(&trace(vec![
        blocks(10, 0, 1, 2),
        // The switch from 2 back to 1 is not in the trace.
        waking(20, 0, 1, 3, 1),
        blocks(30, 0, 1, 0),
    ]));
    assert_eq!(timeline.unseen, [(20, 0)]);
    let turns: Vec<_> = timeline.cpus[0].iter().map(|turn| (turn.start, turn.end, turn.tid)).collect();
    assert_eq!(turns, [(10, 10, 1), (10, 20, 2), (20, 30, 1), (30, 30, 0)]);
    let two: Vec<_> = timeline.tasks[&2].intervals.iter().map(|i| (i.start, i.end, i.state)).collect();
    assert_eq!(two, [(10, 20, State::Running { cpu: 0 })]);
    let last = timeline.tasks[&1].intervals.iter().find(|i| i.start == 20).expect("it runs again");
    assert_eq!((last.end, last.state), (30, State::Running { cpu: 0 }));
}

#[test]
fn a_priority_that_a_task_gives_itself_holds_for_its_turn() {
    let timeline = Timeline::of(&trace(vec![
        blocks(10, 0, 0, 1),
        with_prios(blocks(50, 0, 1, 0), 0, 120),
        with_prios(blocks(60, 0, 0, 1), 120, 0),
        with_prios(blocks(80, 0, 1, 0), 98, 120),
    ]));
    let prio = |time| timeline.tasks[&1].prio(time);
    assert_eq!([10, 20, 60, 70, 90].map(prio), [Some(0), Some(0), Some(98), Some(98), Some(98)]);
}
