//! Any row of events, however absurd, is turned into a time line, a graph, a diagnosis and files
//! without a panic, and what must hold of them holds.

use proptest::prelude::*;

use crate::diagnose::{Window, explain_in, slowest_wakes};
use crate::event::{Context, Event, EventKind, LeftAs, Wakee};
use crate::model::graph::Graph;
use crate::model::simulate::simulate;
use crate::model::timeline::Timeline;
use crate::trace::Trace;
use crate::{perfetto, render};

fn wakee() -> impl Strategy<Value = Wakee> {
    (0..6i32, 0..3u16, prop_oneof![Just(-1i16), 40..60i16, Just(120i16)]).prop_map(|(tid, cpu, prio)| Wakee {
        tid,
        cpu,
        prio,
    })
}

fn what() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        (0..6i32, 0..6i32, 0..140i16, 0..140i16, any::<u16>()).prop_map(
            |(prev, next, prev_prio, next_prio, state)| {
                let prev_state = LeftAs(state & 0x133);
                EventKind::Switch { prev, next, prev_prio, next_prio, prev_state }
            }
        ),
        wakee().prop_map(EventKind::Waking),
        wakee().prop_map(EventKind::Wakeup),
        wakee().prop_map(EventKind::WakeupNew),
        (0..6i32, 0..3u16, 0..3u16).prop_map(|(tid, from, to)| EventKind::Migrate { tid, from, to }),
        (0..6i32, 0..140i16, 0..140i16).prop_map(|(tid, old, new)| EventKind::PriorityInherited {
            tid,
            old,
            new
        }),
        (0..4u8).prop_map(|vector| EventKind::SoftIrqEntry { vector }),
        (0..4u8).prop_map(|vector| EventKind::SoftIrqExit { vector }),
        (0..9i32).prop_map(|irq| EventKind::IrqEntry { irq }),
        Just(EventKind::Marker(5)),
        Just(EventKind::Other(5)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let time = prop_oneof![8 => 0..2_000u64, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    (time, 0..6i32, 0..3u16, any::<u8>(), what()).prop_map(|(time, tid, cpu, flags, what)| Event {
        time,
        tid,
        cpu,
        context: Context(flags),
        what,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]
    #[test]
    fn any_events_are_understood_somehow(events in proptest::collection::vec(event(), 0..80), caller in 0..6i32, start in 0..2_000u64, length in 0..500u64) {
        let trace = Trace::from_events(events, [(1, "one".to_owned())], 1);
        let timeline = Timeline::of(&trace);
        for line in timeline.tasks.values() {
            prop_assert!(line.intervals.iter().all(|interval| interval.start <= interval.end));
            prop_assert!(line.intervals.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
        for turns in &timeline.cpus {
            prop_assert!(turns.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
        let window = Window { caller, callee: Some(2), start, end: start + length };
        if let Ok(diagnosis) = explain_in(&trace, &timeline, window) {
            prop_assert_eq!(diagnosis.causes.iter().map(|cause| cause.ns).sum::<u64>(), length);
            prop_assert_eq!(diagnosis.path.iter().map(|step| step.length()).sum::<u64>(), length);
            prop_assert!(!diagnosis.to_string().is_empty());
        }
        prop_assert!(slowest_wakes(&trace, &timeline, 3, |_| true).len() <= 3);
        let graph = Graph::of(&trace, &timeline, 2, |_| true);
        prop_assert_eq!(graph.edges.iter().map(|edge| edge.count).sum::<u64>(), graph.wakes);
        let rules = ["prev", "3.12", "4.3", "none"].map(|name| name.parse().expect("a rule"));
        for outcome in simulate(&timeline, 2, &rules, |_| true) {
            prop_assert!(outcome.idle <= outcome.wakes && outcome.changed <= outcome.wakes);
        }
        let _ = (render::dot::dot(&graph), render::svg::svg(&graph), graph.to_string());
        let _ = render::html::html(&trace, &timeline, &render::html::View::default());
        let _ = perfetto::to_bytes(&trace, &timeline, perfetto::Options::default());
    }
}
