//! Requests and their replies, whatever carries them, and how both sides spent the time.
//!
//! Binder's events say which reply belongs to which transaction: they are joined by `debug_id`. For
//! everything else (shared memory and futexes, sockets, pipes) the wake-ups say it: a task wakes another
//! and sleeps, and is woken by that one. That is a request from when the first woke the second until it
//! ran again. A callee that was awake already (it was spinning, or served somebody else) is not woken,
//! so such a request is not seen.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::diagnose::{Window, name_of, phases};
use crate::event::{EventKind, Tid};
use crate::model::percentiles::Percentiles;
use crate::model::timeline::{State, Timeline, Wake};
use crate::trace::Trace;

/// How it is known that a request is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// By Binder's events.
    Binder,
    Wakes,
}

/// A request, from when the caller sent it until the caller had the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Request {
    pub carrier: Carrier,
    pub caller: Tid,
    pub callee: Tid,
    /// When it was sent, in nanoseconds.
    pub start: u64,
    /// When its caller had the reply.
    pub end: u64,
    /// From when the callee took it until it sent the reply, where the carrier's events say so.
    pub served: Option<(u64, u64)>,
}

impl Request {
    /// How long it took, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    fn window(&self) -> Window {
        Window { caller: self.caller, callee: Some(self.callee), start: self.start, end: self.end }
    }
}

/// All requests of a trace, in the order in which they began.
pub fn requests(trace: &Trace, timeline: &Timeline) -> Vec<Request> {
    let mut all = of_binder(trace);
    let mut known: HashMap<Tid, Vec<(u64, u64)>> = HashMap::new();
    for request in &all {
        known.entry(request.caller).or_default().push((request.start, request.end));
    }
    // What Binder's events say is not said again by the wake-ups within it.
    let within = |of: &Request| {
        known.get(&of.caller).is_some_and(|spans| {
            let from = spans.partition_point(|span| span.1 <= of.start);
            spans.get(from).is_some_and(|span| span.0 < of.end)
        })
    };
    all.extend(of_wakes(timeline).into_iter().filter(|request| !within(request)));
    all.sort_by_key(|request| (request.start, request.caller));
    all
}

/// Transactions by their numbers: sent, received, replied to, and that received, too.
fn of_binder(trace: &Trace) -> Vec<Request> {
    let mut sent: HashMap<i32, (Tid, u64)> = HashMap::new();
    // Those that a task is serving, the innermost last: calls can be nested.
    let mut serving: HashMap<Tid, Vec<(Tid, u64, u64)>> = HashMap::new();
    let mut replied: HashMap<i32, Request> = HashMap::new();
    let mut all = Vec::new();
    for event in trace.events() {
        match event.what {
            EventKind::BinderTransaction { debug_id, reply: false, oneway: false } => {
                sent.insert(debug_id, (event.tid, event.time));
            }
            EventKind::BinderTransaction { debug_id, reply: true, .. } => {
                if let Some((caller, start, taken)) = serving.get_mut(&event.tid).and_then(Vec::pop) {
                    let (carrier, callee, end) = (Carrier::Binder, event.tid, event.time);
                    let served = Some((taken, end));
                    replied.insert(debug_id, Request { carrier, caller, callee, start, end, served });
                }
            }
            EventKind::BinderReceived { debug_id } => {
                if let Some((caller, start)) = sent.remove(&debug_id) {
                    serving.entry(event.tid).or_default().push((caller, start, event.time));
                } else if let Some(request) = replied.remove(&debug_id) {
                    all.push(Request { end: event.time, ..request });
                }
            }
            EventKind::Exit { tid } => drop(serving.remove(&tid)),
            _ => {}
        }
    }
    all.sort_by_key(|request| (request.caller, request.start));
    all
}

/// Requests by who woke whom. What is sent over a loopback connection wakes in a software interrupt that
/// the sender runs.
fn of_wakes(timeline: &Timeline) -> Vec<Request> {
    let mut open: HashMap<(Tid, Tid), u64> = HashMap::new();
    let mut all = Vec::new();
    let by_task = |wake: &&Wake| (!wake.interrupt || wake.soft) && wake.waker != 0 && !wake.new;
    for wake in timeline.wakes.iter().filter(by_task) {
        let (waker, wakee) = (wake.waker, wake.wakee);
        let asked = open.get(&(wakee, waker)).copied();
        match (asked, wake.ran.filter(|_| !wake.early)) {
            (Some(start), Some((end, _))) if slept_since(timeline, wakee, start, wake.time) => {
                open.remove(&(wakee, waker));
                let (carrier, caller, callee) = (Carrier::Wakes, wakee, waker);
                all.push(Request { carrier, caller, callee, start, end, served: None });
            }
            // The newest wake-up is the one that the reply is for.
            _ if !wake.early => drop(open.insert((waker, wakee), wake.time)),
            _ => {}
        }
    }
    all
}

/// Whether a task went to sleep after `start` and was asleep until `end`.
fn slept_since(timeline: &Timeline, tid: Tid, start: u64, end: u64) -> bool {
    let line = timeline.tasks.get(&tid).map_or(&[][..], |line| line.between(start, end));
    let last = line.iter().rev().find(|interval| interval.start < end);
    last.is_some_and(|last| matches!(last.state, State::Blocked { .. }) && last.start >= start)
}

/// How one side spent its part of the requests, summed up in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Side {
    pub running_ns: u64,
    /// It was ready, and waited for a CPU.
    pub runnable_ns: u64,
    pub blocked_ns: u64,
}

impl Side {
    fn add(&mut self, trace: &Trace, timeline: &Timeline, tid: Tid, window: Window) {
        let phases = phases(trace, timeline, tid, window);
        self.running_ns += phases.running_ns;
        self.runnable_ns += phases.runnable_ns;
        self.blocked_ns += phases.blocked_ns;
    }
}

/// The requests of one kind of caller to one kind of callee: threads of the same name and process are
/// taken together.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    pub carrier: Carrier,
    pub caller: String,
    /// Their process; none if it is not known.
    pub caller_process: Option<Tid>,
    pub callee: String,
    pub callee_process: Option<Tid>,
    /// From sending to the reply, in nanoseconds.
    pub latency: Percentiles,
    /// How the callers spent that time.
    pub by_caller: Side,
    pub by_callee: Side,
    /// The slowest, for a diagnosis.
    pub slowest: Request,
}

/// The requests that `keep` wants, by who asks whom, those that took the most time in all first.
pub fn pairs(trace: &Trace, timeline: &Timeline, keep: impl Fn(&Request) -> bool) -> Vec<Pair> {
    type Key = (Carrier, String, Option<Tid>, String, Option<Tid>);
    let mut groups: BTreeMap<Key, Vec<Request>> = BTreeMap::new();
    for request in requests(trace, timeline).into_iter().filter(keep) {
        let name = |tid| name_of(trace, timeline, tid, request.start);
        let key = (
            request.carrier,
            name(request.caller),
            trace.process(request.caller),
            name(request.callee),
            trace.process(request.callee),
        );
        groups.entry(key).or_default().push(request);
    }
    let pair = |(key, requests): (Key, Vec<Request>)| {
        let (carrier, caller, caller_process, callee, callee_process) = key;
        let (mut by_caller, mut by_callee) = (Side::default(), Side::default());
        for request in &requests {
            by_caller.add(trace, timeline, request.caller, request.window());
            by_callee.add(trace, timeline, request.callee, request.window());
        }
        let slowest = requests.iter().copied().max_by_key(Request::length)?;
        let latency = Percentiles::of(requests.iter().map(Request::length).collect());
        Some(Pair {
            carrier,
            caller,
            caller_process,
            callee,
            callee_process,
            latency,
            by_caller,
            by_callee,
            slowest,
        })
    };
    let mut pairs: Vec<_> = groups.into_iter().filter_map(pair).collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.latency.sum));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::testing::{blocks, event, trace, wakeup, waking};

    /// Task 1 on CPU 0 asks task 2 on CPU 1, which works for 80 ns; the reply is there 200 ns after.
    fn call(time: u64) -> Vec<Event> {
        vec![
            waking(time, 0, 1, 2, 1),
            wakeup(time + 1, 0, 1, 2, 1),
            blocks(time + 5, 0, 1, 0),
            blocks(time + 20, 1, 0, 2),
            waking(time + 100, 1, 2, 1, 0),
            wakeup(time + 101, 1, 2, 1, 0),
            blocks(time + 110, 1, 2, 0),
            blocks(time + 200, 0, 0, 1),
        ]
    }

    fn history(calls: &[u64]) -> Vec<Event> {
        let mut events = vec![blocks(1, 0, 0, 1), blocks(2, 1, 2, 0)];
        events.extend(calls.iter().flat_map(|time| call(*time)));
        events
    }

    #[test]
    fn a_wake_up_and_the_one_back_are_a_request() {
        let trace = trace(history(&[1000, 2000]));
        let timeline = Timeline::of(&trace);
        let found = requests(&trace, &timeline);
        let expected = [1000, 2000].map(|start| Request {
            carrier: Carrier::Wakes,
            caller: 1,
            callee: 2,
            start,
            end: start + 200,
            served: None,
        });
        assert_eq!(found, expected);

        let pairs = pairs(&trace, &timeline, |_| true);
        assert_eq!(pairs.len(), 1);
        let pair = &pairs[0];
        assert_eq!((pair.caller.as_str(), pair.callee.as_str(), pair.latency.count), ("task-1", "task-2", 2));
        assert_eq!((pair.latency.p50, pair.latency.max), (200, 200));
        let caller = Side { running_ns: 2 * 5, runnable_ns: 2 * 100, blocked_ns: 2 * 95 };
        assert_eq!(pair.by_caller, caller);
        let callee = Side { running_ns: 2 * 90, runnable_ns: 2 * 20, blocked_ns: 2 * 90 };
        assert_eq!(pair.by_callee, callee);
    }

    #[test]
    fn a_loopback_connection_wakes_in_software_interrupts() {
        let soft = |mut event: Event| {
            if matches!(event.what, EventKind::Waking(_)) {
                event.context = crate::event::Context(0x10);
            }
            event
        };
        let trace = trace(history(&[1000]).into_iter().map(soft).collect());
        let timeline = Timeline::of(&trace);
        assert_eq!(requests(&trace, &timeline).len(), 1);
        let window = Window { caller: 1, callee: Some(2), start: 1000, end: 1200 };
        let diagnosis = crate::diagnose::explain_in(&trace, &timeline, window).expect("it is there");
        let slept = |cause: &crate::diagnose::Cause| cause.kind == crate::diagnose::Kind::Slept;
        assert!(!diagnosis.causes.iter().any(slept), "the callee answers: {diagnosis}");
    }

    #[test]
    fn a_wake_up_without_one_back_is_none() {
        let mut events = history(&[1000]);
        // Only to wake, and go on.
        events.extend([waking(5000, 0, 1, 2, 1), blocks(5010, 1, 0, 2), blocks(5020, 1, 2, 0)]);
        let trace = trace(events);
        assert_eq!(requests(&trace, &Timeline::of(&trace)).len(), 1);
    }

    #[test]
    fn binders_transactions_are_joined_by_number() {
        let sends = |time, tid, debug_id, reply, oneway| {
            event(time, 0, tid, EventKind::BinderTransaction { debug_id, reply, oneway })
        };
        let takes = |time, tid, debug_id| event(time, 1, tid, EventKind::BinderReceived { debug_id });
        let mut events = history(&[1000]);
        events.extend([
            sends(990, 1, 7, false, false),
            sends(991, 5, 8, false, true),
            takes(1021, 2, 7),
            // The callee calls a third while it serves.
            sends(1030, 2, 9, false, false),
            takes(1040, 3, 9),
            sends(1050, 3, 10, true, false),
            takes(1060, 2, 10),
            sends(1099, 2, 11, true, false),
            takes(1201, 1, 11),
        ]);
        let trace = trace(events);
        let found = requests(&trace, &Timeline::of(&trace));
        let told: Vec<_> =
            found.iter().map(|of| (of.carrier, of.caller, of.callee, of.start, of.end)).collect();
        let expected = [(Carrier::Binder, 1, 2, 990, 1201), (Carrier::Binder, 2, 3, 1030, 1060)];
        assert_eq!(told, expected, "and not once more by the wake-ups");
        let served: Vec<_> = found.iter().map(|of| of.served).collect();
        assert_eq!(served, [Some((1021, 1099)), Some((1040, 1050))]);
    }
}
