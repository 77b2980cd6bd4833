//! Each cause, planted in a history written by hand.

use super::*;
use crate::EventKind;
use crate::event::{Context, Event};
use crate::testing::{blocks, event, preempts, trace, wakeup, waking, with_prios};
use crate::trace::{ThrottledGroup, TraceContext};

const CALLER: Tid = 1;
const CALLEE: Tid = 2;
const OTHER: Tid = 3;
const HOLDER: Tid = 4;
const RT: i16 = 50;
const NICE: i16 = 120;

/// The caller runs on CPU 0, wakes the callee on CPU 1 at 100 and sleeps; `between` happens; the
/// callee wakes the caller at 900, which runs at 910 and has its reply at 1000.
fn call(between: Vec<Event>) -> Vec<Event> {
    let mut events = vec![
        blocks(10, 0, 0, CALLER),
        waking(100, 0, CALLER, CALLEE, 1),
        wakeup(101, 0, CALLER, CALLEE, 1),
        blocks(110, 0, CALLER, 0),
    ];
    events.extend(between);
    events.extend([
        waking(900, 1, CALLEE, CALLER, 0),
        wakeup(901, 1, CALLEE, CALLER, 0),
        blocks(910, 0, 0, CALLER),
        blocks(920, 1, CALLEE, 0),
        blocks(1000, 0, CALLER, 0),
    ]);
    events
}

fn diagnose(events: Vec<Event>) -> Diagnosis {
    diagnose_trace(&trace(events))
}

fn diagnose_trace(trace: &Trace) -> Diagnosis {
    let window = Window { caller: CALLER, callee: Some(CALLEE), start: 50, end: 1000 };
    let diagnosis = explain(trace, window).expect("the trace covers it");
    // Whatever happened, the steps follow each other without gaps and the causes add up.
    assert_eq!(diagnosis.path.first().map(|step| step.start), Some(50));
    assert_eq!(diagnosis.path.last().map(|step| step.end), Some(1000));
    assert!(diagnosis.path.windows(2).all(|pair| pair[0].end == pair[1].start));
    assert_eq!(diagnosis.causes.iter().map(|cause| cause.ns).sum::<u64>(), 950);
    diagnosis
}

fn main_cause(diagnosis: &Diagnosis) -> (Kind, Tid, Option<Tid>) {
    let cause = diagnosis.main_cause().expect("there is one");
    (cause.kind, cause.tid, cause.culprit)
}

#[test]
fn a_callee_that_runs_long_is_named() {
    let diagnosis = diagnose(call(vec![blocks(120, 1, 0, CALLEE)]));
    assert_eq!(main_cause(&diagnosis), (Kind::CalleeRan, CALLEE, None));
    assert_eq!(diagnosis.main_cause().expect("there").ns, 780);
    let kinds: Vec<_> = diagnosis.causes.iter().map(|cause| (cause.kind, cause.ns)).collect();
    // The caller slept from 110: from there to 120, and from 900 to 910, a CPU came out of idle.
    assert_eq!(kinds.iter().filter(|kind| **kind == (Kind::IdleExit, 10)).count(), 2, "{kinds:?}");
    assert!(
        diagnosis.to_string().contains("the callee `task-2` (task 2, nice 0) was running"),
        "{diagnosis}"
    );
    assert_eq!((diagnosis.phases[1].running_ns, diagnosis.phases[1].runnable_ns), (800, 20));
}

#[test]
fn a_task_that_has_the_cpu_is_named() {
    let diagnosis = diagnose(call(vec![blocks(90, 1, 0, OTHER), preempts(700, 1, OTHER, CALLEE)]));
    assert_eq!(main_cause(&diagnosis), (Kind::BusyCpu, CALLEE, Some(OTHER)));
    assert!(diagnosis.to_string().contains("busy: `task-3` (task 3"), "{diagnosis}");
}

#[test]
fn a_task_that_takes_the_cpu_is_named() {
    let between =
        vec![blocks(120, 1, 0, CALLEE), preempts(150, 1, CALLEE, OTHER), blocks(800, 1, OTHER, CALLEE)];
    let diagnosis = diagnose(call(between));
    assert_eq!(main_cause(&diagnosis), (Kind::Preempted, CALLEE, Some(OTHER)));
}

#[test]
fn a_less_important_holder_is_an_inversion() {
    let between = vec![
        with_prios(blocks(90, 1, 0, HOLDER), NICE, NICE),
        with_prios(preempts(120, 1, HOLDER, CALLEE), NICE, RT),
        // The callee finds the lock taken and sleeps; the holder is kept off by a third.
        with_prios(blocks(130, 1, CALLEE, OTHER), RT, NICE),
        with_prios(blocks(700, 1, OTHER, HOLDER), NICE, NICE),
        waking(750, 1, HOLDER, CALLEE, 1),
        wakeup(751, 1, HOLDER, CALLEE, 1),
        with_prios(preempts(760, 1, HOLDER, CALLEE), NICE, RT),
    ];
    let mut events = call(between);
    events[0] = with_prios(events[0], NICE, RT);
    for event in &mut events {
        // The waker's word on the priority of who is woken must agree with the switches.
        if let EventKind::Waking(wakee) | EventKind::Wakeup(wakee) = &mut event.what {
            wakee.prio = RT;
        }
    }
    let diagnosis = diagnose(events);
    assert_eq!(main_cause(&diagnosis), (Kind::PriorityInversion, CALLEE, Some(HOLDER)));
    assert!(diagnosis.to_string().contains("priority inversion: the callee"), "{diagnosis}");
}

#[test]
fn a_callee_without_the_callers_priority_is_an_inversion() {
    let between = vec![
        with_prios(blocks(90, 1, 0, OTHER), NICE, NICE),
        with_prios(preempts(700, 1, OTHER, CALLEE), NICE, NICE),
    ];
    let mut events = call(between);
    events[0] = with_prios(events[0], NICE, RT);
    events[3] = with_prios(events[3], RT, NICE);
    let diagnosis = diagnose(events);
    assert_eq!(main_cause(&diagnosis), (Kind::PriorityInversion, CALLEE, Some(OTHER)));
    assert!(diagnosis.to_string().contains("was not inherited"), "{diagnosis}");
}

#[test]
fn a_name_and_a_priority_that_a_task_gave_itself_count_for_its_turn() {
    let mut events = call(vec![blocks(120, 1, 0, CALLEE)]);
    // It came at nice 0, and left as a real-time task.
    events[3] = with_prios(events[3], RT, NICE);
    let names = [(CALLER, "caller".to_owned()), (CALLEE, "callee".to_owned())];
    let mut trace = Trace::from_events(events, names, 2);
    trace.names.saw(110, CALLER, b"fifo-caller");
    let text = diagnose_trace(&trace).to_string();
    assert!(text.contains("the caller `fifo-caller` (task 1, real-time 49) itself was running"), "{text}");
}

#[test]
fn a_third_task_of_the_same_importance_holds_up() {
    let between = vec![
        blocks(120, 1, 0, CALLEE),
        blocks(130, 1, CALLEE, HOLDER),
        waking(750, 1, HOLDER, CALLEE, 1),
        wakeup(751, 1, HOLDER, CALLEE, 1),
        blocks(760, 1, HOLDER, CALLEE),
    ];
    assert_eq!(main_cause(&diagnose(call(between))), (Kind::HeldUp, CALLEE, Some(HOLDER)));
}

#[test]
fn a_sleep_ended_by_an_interrupt_has_no_culprit() {
    let between = vec![
        blocks(120, 1, 0, CALLEE),
        blocks(130, 1, CALLEE, 0),
        Event { context: Context(8), ..waking(750, 1, OTHER, CALLEE, 1) },
        wakeup(751, 1, 0, CALLEE, 1),
        blocks(760, 1, 0, CALLEE),
    ];
    assert_eq!(main_cause(&diagnose(call(between))), (Kind::Slept, CALLEE, None));
}

#[test]
fn ready_beside_an_idle_cpu_is_a_quota() {
    let between = vec![blocks(120, 1, 0, CALLEE), preempts(150, 1, CALLEE, 0), blocks(850, 1, 0, CALLEE)];
    let mut trace = trace(call(between));
    trace.set_context(TraceContext {
        throttled: vec![ThrottledGroup { group: "/group".into(), times: 1, tasks: vec![CALLEE] }],
        ..TraceContext::default()
    });
    let diagnosis = diagnose_trace(&trace);
    assert_eq!(main_cause(&diagnosis), (Kind::Throttled, CALLEE, None));
    assert!(diagnosis.to_string().contains("the CPU quota of /group"), "{diagnosis}");
}

#[test]
fn a_real_time_task_behind_a_fair_one_is_throttled() {
    let between = vec![
        with_prios(blocks(120, 1, 0, CALLEE), NICE, RT),
        with_prios(preempts(150, 1, CALLEE, OTHER), RT, NICE),
        with_prios(blocks(850, 1, OTHER, CALLEE), NICE, RT),
    ];
    let mut trace = trace(call(between));
    trace.set_context(TraceContext { rt_limit_us: Some((950_000, 1_000_000)), ..TraceContext::default() });
    let diagnosis = diagnose_trace(&trace);
    assert_eq!(main_cause(&diagnosis), (Kind::Throttled, CALLEE, None));
    assert!(diagnosis.to_string().contains("sched_rt_runtime_us"), "{diagnosis}");
}

#[test]
fn a_caller_that_looks_and_waits_on_was_waiting_for_its_callee() {
    // The callee is kept from its CPU; a timer ends the caller's first wait, which it begins again.
    let between = vec![
        blocks(90, 1, 0, OTHER),
        Event { context: Context(8), ..waking(500, 0, OTHER, CALLER, 0) },
        Event { context: Context(8), ..wakeup(501, 0, OTHER, CALLER, 0) },
        blocks(510, 0, 0, CALLER),
        blocks(520, 0, CALLER, 0),
        preempts(800, 1, OTHER, CALLEE),
    ];
    let diagnosis = diagnose(call(between));
    assert_eq!(main_cause(&diagnosis), (Kind::BusyCpu, CALLEE, Some(OTHER)));
    assert!(!diagnosis.causes.iter().any(|cause| cause.kind == Kind::Slept), "{diagnosis}");
}

#[test]
fn interrupts_are_taken_off_the_time_of_who_ran() {
    let between = vec![
        blocks(120, 1, 0, CALLEE),
        event(200, 1, CALLEE, EventKind::SoftIrqEntry { vector: 3 }),
        event(800, 1, CALLEE, EventKind::SoftIrqExit { vector: 3 }),
    ];
    let diagnosis = diagnose(call(between));
    assert_eq!(main_cause(&diagnosis).0, Kind::Interrupts);
    assert_eq!(diagnosis.main_cause().expect("there").ns, 600);
}

#[test]
fn a_move_to_another_cpu_splits_the_wait_and_is_noted() {
    let between = vec![
        blocks(90, 1, 0, OTHER),
        crate::testing::migrate(500, 0, 0, CALLEE, 1, 0),
        crate::testing::migrate(600, 0, 0, CALLEE, 0, 1),
        blocks(700, 1, OTHER, CALLEE),
    ];
    let diagnosis = diagnose(call(between));
    let of = |kind, cpu| {
        let fits = |cause: &&Cause| (cause.kind, cause.tid, cause.cpu) == (kind, CALLEE, Some(cpu));
        diagnosis.causes.iter().find(fits).map(|cause| cause.ns)
    };
    assert_eq!((of(Kind::BusyCpu, 1), of(Kind::IdleExit, 0)), (Some(490), Some(100)));
    assert!(diagnosis.notes.iter().any(|note| note.contains("was moved to another CPU twice")));
}

#[test]
fn tasks_that_wake_each_other_in_a_circle_end() {
    let mut events = vec![blocks(10, 0, 0, CALLER), blocks(20, 0, CALLER, 0)];
    for step in 0..200 {
        let (time, who) = (30 + step * 4, if step % 2 == 0 { CALLEE } else { OTHER });
        events.push(blocks(time, 1, if step == 0 { 0 } else { CALLEE + OTHER - who }, who));
        events.push(waking(time + 1, 1, who, CALLEE + OTHER - who, 1));
    }
    events.push(waking(900, 1, CALLEE, CALLER, 0));
    events.push(blocks(910, 0, 0, CALLER));
    events.push(blocks(1000, 0, CALLER, 0));
    diagnose(events);
}

#[test]
fn what_is_not_in_the_trace_is_an_error_that_says_so() {
    let trace = trace(call(Vec::new()));
    let window = |caller, start, end| Window { caller, callee: None, start, end };
    let error = explain(&trace, window(7, 50, 1000)).expect_err("no such task");
    assert!(error.to_string().contains("task 7"), "{error}");
    assert!(explain(&trace, window(CALLER, 5000, 6000)).is_err());
    let error = explain(&trace, window(CALLER, 60, 60)).expect_err("no time at all");
    assert!(error.to_string().contains("ends (60 ns) before"), "{error}");
}

#[test]
fn the_slowest_wake_ups_come_first() {
    let trace = trace(call(vec![blocks(90, 1, 0, OTHER), preempts(700, 1, OTHER, CALLEE)]));
    let slow = slowest_wakes(&trace, &Timeline::of(&trace), 5, |_| true);
    let found: Vec<_> = slow.iter().map(|slow| (slow.window.caller, slow.window.length())).collect();
    assert_eq!(found, [(CALLEE, 600), (CALLER, 10)]);
    assert_eq!(main_cause(&slow[0]), (Kind::BusyCpu, CALLEE, Some(OTHER)));
    assert_eq!(slowest_wakes(&trace, &Timeline::of(&trace), 5, |tid| tid == CALLER).len(), 1);
    // A wake-up has no caller and no callee: its task is named, and so is each of the steps.
    let text = slow[0].to_string();
    assert!(text.starts_with("`task-2` (task 2) took 600 ns.\n"), "{text}");
    assert!(text.contains("  `task-2` (task 2) waits for CPU 1 for 600 ns"), "{text}");
    assert!(!text.contains("call"), "{text}");
}

#[test]
fn the_headline_adds_up_causes_of_one_kind() {
    // Two tasks one after the other keep the callee; the callee's own work is longer than each.
    let between =
        vec![blocks(90, 1, 0, OTHER), blocks(360, 1, OTHER, HOLDER), preempts(600, 1, HOLDER, CALLEE)];
    let diagnosis = diagnose(call(between));
    assert_eq!(main_cause(&diagnosis).0, Kind::CalleeRan);
    let headline = diagnosis.headline();
    assert!(headline.starts_with("52% of 950 ns: the callee"), "{headline}");
    assert!(
        headline.contains("busy: `task-3` (task 3") && headline.ends_with("(mostly; and 1 more like it)"),
        "{headline}"
    );
}
