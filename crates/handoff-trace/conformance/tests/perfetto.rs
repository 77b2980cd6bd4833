//! A real recording, written as a Perfetto file and read back with Perfetto's own definitions:
//! every event of ours must be in it, with its values, and nothing may be unknown there.

use std::collections::{HashMap, HashSet};
use std::process::Command;

use handoff_testkit::{require, require_root};
use handoff_trace::capture::diagnosis_events;
use handoff_trace::perfetto::{Options, to_bytes};
use handoff_trace::{Capture, Config, Slice, Timeline, Trace, TraceFs, What};
use perfetto_protos::ftrace_event::FtraceEvent;
use perfetto_protos::ftrace_event::ftrace_event::Event;
use perfetto_protos::trace::Trace as Published;
use perfetto_protos::trace_packet::trace_packet::Data;
use perfetto_protos::track_event::track_event::Type;
use protobuf::Message as _;

fn recorded() -> Trace {
    let tracefs = TraceFs::find().expect("tracefs");
    let config = Config { events: diagnosis_events(), ..Config::default() };
    let capture = Capture::start(&tracefs, &config).expect("starts");
    for _ in 0..20 {
        let status = Command::new("sh").args(["-c", "echo x | cat > /dev/null"]).status();
        assert!(status.expect("a shell").success());
    }
    capture.mark("a mark").expect("written");
    let mut trace = capture.finish().expect("stops").decode().expect("sound");
    let (start, end) = trace.span().expect("not empty");
    let slice = |name: &str, tid, start, end| Slice { name: name.to_owned(), tid, start, end };
    trace.add_slices([
        slice("call", 7, start, end),
        slice("inner", 7, start + 1, end - 1),
        slice("other", 8, start, end),
    ]);
    trace
}

fn count(trace: &Trace, is: fn(&What) -> bool) -> usize {
    trace.events().iter().filter(|event| is(&event.what)).count()
}

#[test]
fn perfetto_reads_what_we_write() {
    require!(require_root());
    let trace = recorded();
    let timeline = Timeline::of(&trace);
    let bytes = to_bytes(&trace, &timeline, Options::default());
    let published = Published::parse_from_bytes(&bytes).expect("it is a Perfetto trace");
    assert!(published.special_fields.unknown_fields().iter().next().is_none());

    let mut ftrace: Vec<(u32, &FtraceEvent)> = Vec::new();
    let (mut begins, mut ends, mut counters) = (Vec::new(), 0, 0);
    let (mut flows, mut ended, mut tracks) = (HashSet::new(), HashSet::new(), HashMap::new());
    for packet in &published.packet {
        assert!(packet.special_fields.unknown_fields().iter().next().is_none(), "{packet:?}");
        match packet.data.as_ref().expect("a packet has data") {
            Data::FtraceEvents(bundle) => {
                assert!(bundle.event.is_sorted_by_key(|event| event.timestamp()));
                ftrace.extend(bundle.event.iter().map(|event| (bundle.cpu(), event)));
            }
            Data::TrackDescriptor(track) => {
                tracks.insert(track.uuid(), track.clone());
            }
            Data::TrackEvent(event) => {
                assert!(tracks.contains_key(&event.track_uuid()), "the track comes first");
                match event.type_() {
                    Type::TYPE_SLICE_BEGIN => begins.push(event.name().to_owned()),
                    Type::TYPE_SLICE_END => ends += 1,
                    Type::TYPE_COUNTER => counters += 1,
                    _ => {}
                }
                flows.extend(event.flow_ids.iter().copied());
                ended.extend(event.terminating_flow_ids.iter().copied());
            }
            _ => {}
        }
    }

    let is = |wanted: fn(&Event) -> bool| {
        ftrace.iter().filter(|(_, e)| e.event.as_ref().is_some_and(wanted)).count()
    };
    assert_eq!(
        is(|e| matches!(e, Event::SchedSwitch(_))),
        count(&trace, |w| matches!(w, What::Switch { .. }))
    );
    assert_eq!(is(|e| matches!(e, Event::SchedWaking(_))), count(&trace, |w| matches!(w, What::Waking(_))));
    assert_eq!(is(|e| matches!(e, Event::SchedWakeup(_))), count(&trace, |w| matches!(w, What::Wakeup(_))));
    assert_eq!(is(|e| matches!(e, Event::CpuIdle(_))), count(&trace, |w| matches!(w, What::Idle { .. })));
    assert_eq!(
        is(|e| matches!(e, Event::SoftirqEntry(_))),
        count(&trace, |w| matches!(w, What::SoftIrqEntry { .. }))
    );
    assert_eq!(is(|e| matches!(e, Event::Print(_))), 1);
    assert!(is(|e| matches!(e, Event::SchedSwitch(_))) > 40);

    // Each switch carries its values, and each CPU's turns follow one another.
    let mut switches = ftrace.iter().filter_map(|(cpu, event)| match &event.event {
        Some(Event::SchedSwitch(switch)) => Some((*cpu, event.timestamp(), switch)),
        _ => None,
    });
    for cpu in 0..trace.coverage().len() {
        for event in trace.events().iter().filter(|event| usize::from(event.cpu) == cpu) {
            let What::Switch { prev, next, prev_prio, next_prio, prev_state } = event.what else { continue };
            let (their_cpu, time, switch) = switches.next().expect("as many as ours");
            assert_eq!((their_cpu as usize, time), (cpu, event.time));
            assert_eq!((switch.prev_pid(), switch.next_pid()), (prev, next));
            assert_eq!((switch.prev_prio(), switch.next_prio()), (prev_prio.into(), next_prio.into()));
            assert_eq!(switch.prev_state(), i64::from(prev_state.0));
            assert!(next == 0 || switch.next_comm() == trace.name(next, event.time));
        }
    }

    assert_eq!(begins, ["call", "inner", "other"]);
    assert_eq!(ends, 3);
    assert!(counters > 0 && !flows.is_empty());
    assert_eq!(flows, ended, "every arrow has both ends");
    let arrows =
        timeline.wakes.iter().filter(|w| w.ran.is_some() && !w.interrupt && !w.early && w.waker != 0);
    assert_eq!(flows.len(), arrows.count());
}
