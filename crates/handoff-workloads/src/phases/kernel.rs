//! Finds the fifteen points of each transaction in a trace of the kernel's Binder driver.
//!
//! The transaction and its reply are followed by their `debug_id`, which the events on both sides carry;
//! what has none is taken from the thread that it happened on, between the neighbours that have.

use std::collections::HashMap;

use handoff_trace::capture::{BINDER_SYSTEMS, Config, EventRequest, Keep};
use handoff_trace::{EventKind, Tid, Trace, TraceFs};

use super::PointTable;
use crate::rpc::service::Stamps;

/// `BC_TRANSACTION`, `BC_REPLY` and those with scatter-gather, by their numbers within the UAPI: the rest of
/// a command's number is its size and direction.
const TRANSACTION: [u8; 2] = [0, 17];
const REPLY: [u8; 2] = [1, 18];
/// `_IOC_TYPE` of the commands.
const COMMAND_TYPE: u8 = b'c';

/// The driver's events that the points come from.
const EVENTS: [&str; 6] = [
    "binder_ioctl",
    "binder_ioctl_done",
    "binder_command",
    "binder_transaction",
    "binder_transaction_received",
    "binder_write_done",
];

/// The system of the running driver's events. A kernel that holds both drivers has the events of both, and only those
/// of the one that runs ever happen: the other's are recorded, too, and stay away.
fn systems(tracefs: &TraceFs) -> Vec<&'static str> {
    let has_events = |system: &&str| tracefs.root().join("events").join(system).join(EVENTS[0]).exists();
    let there: Vec<&str> = BINDER_SYSTEMS.into_iter().filter(has_events).collect();
    // With none of them, the error names the event of the first.
    if there.is_empty() { vec![BINDER_SYSTEMS[0]] } else { there }
}

/// What is recorded: the events above, and who wakes whom and runs.
pub(super) fn config(tracefs: &TraceFs) -> Config {
    let of_driver = |system| EVENTS.map(|event| EventRequest::required(system, event));
    let mut events: Vec<EventRequest> = systems(tracefs).into_iter().flat_map(of_driver).collect();
    events.extend(["sched_waking", "sched_switch"].map(|event| EventRequest::required("sched", event)));
    Config { events, keep: Keep::Stream { limit: 256 << 20 }, buffer_kib: 4 << 10, ..Config::default() }
}

/// An event as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelEvent {
    Ioctl,
    IoctlDone,
    Command(u32),
    /// With its `debug_id`.
    Transaction(i32),
    /// With its `debug_id`.
    Received(i32),
    WriteDone,
    Waking(Tid),
    SwitchTo(Tid),
}

/// When and on which thread something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) time: u64,
    pub(super) tid: Tid,
    pub(super) what: KernelEvent,
}

/// What a trace holds of all this, in the order of time.
pub(super) fn observations(trace: &Trace) -> Vec<Observation> {
    let mut known = HashMap::new();
    let mut all = Vec::new();
    for event in trace.events() {
        let what = match event.what {
            EventKind::Waking(wakee) => Some(KernelEvent::Waking(wakee.tid)),
            EventKind::Switch { next, .. } => Some(KernelEvent::SwitchTo(next)),
            EventKind::BinderTransaction { debug_id, .. } => Some(KernelEvent::Transaction(debug_id)),
            EventKind::BinderReceived { debug_id } => Some(KernelEvent::Received(debug_id)),
            EventKind::Other(index) => trace.other(index).and_then(|other| {
                let kind = known.entry(other.id).or_insert_with(|| Kind::of(trace, other.id));
                kind.as_ref().and_then(|kind| kind.read(&other.numbers))
            }),
            _ => None,
        };
        if let Some(what) = what {
            all.push(Observation { time: event.time, tid: event.tid, what });
        }
    }
    all
}

/// An event of the driver, and where among its numbers the one that matters is.
struct Kind {
    event: usize,
    number: usize,
}

impl Kind {
    fn of(trace: &Trace, id: u16) -> Option<Self> {
        let format = trace.format(id).filter(|format| BINDER_SYSTEMS.contains(&format.system.as_str()))?;
        let event = EVENTS.iter().position(|name| *name == format.name)?;
        if EVENTS[event] != "binder_command" {
            return Some(Kind { event, number: 0 });
        }
        let own = format.fields.iter().filter(|field| {
            !field.name.starts_with("common_") && field.place.kind == handoff_trace::format::FieldKind::Number
        });
        let number = own.into_iter().position(|field| field.name == "cmd")?;
        Some(Kind { event, number })
    }

    fn read(&self, numbers: &[i64]) -> Option<KernelEvent> {
        Some(match EVENTS[self.event] {
            "binder_ioctl" => KernelEvent::Ioctl,
            "binder_ioctl_done" => KernelEvent::IoctlDone,
            "binder_command" => {
                KernelEvent::Command(u32::try_from(numbers.get(self.number)? & 0xffff_ffff).ok()?)
            }
            "binder_write_done" => KernelEvent::WriteDone,
            // The others have types of their own.
            _ => return None,
        })
    }
}

/// The points of each call.
pub(super) fn join(calls: &[Stamps], client: Tid, observations: &[Observation]) -> PointTable {
    PointTable::of(calls, |call| points(call, client, observations))
}

#[derive(Clone, Copy)]
struct Within<'a>(&'a [Observation]);

impl<'a> Within<'a> {
    fn new(all: &'a [Observation], from: u64, to: u64) -> Self {
        let start = all.partition_point(|observation| observation.time < from);
        let end = all.partition_point(|observation| observation.time <= to);
        Within(&all[start..end.max(start)])
    }

    /// The first on this thread from `from` on that is what is looked for.
    fn first<T>(self, tid: Tid, from: u64, is: impl Fn(KernelEvent) -> Option<T>) -> Option<(u64, T)> {
        let on_thread = self.0.iter().filter(|seen| seen.tid == tid && seen.time >= from);
        on_thread.into_iter().find_map(|seen| Some((seen.time, is(seen.what)?)))
    }
}

fn is(wanted: KernelEvent) -> impl Fn(KernelEvent) -> Option<()> {
    move |seen| (seen == wanted).then_some(())
}

fn points(call: &Stamps, client: Tid, all: &[Observation]) -> Result<Vec<u64>, &'static str> {
    let within = Within::new(all, call.send, call.exit);
    let server = call.server;
    let there = one_way(within, client, server, call.send, TRANSACTION)?;
    // The driver is left before the method runs; on the way out of it the thread enters it again.
    let (received, ()) =
        within.first(server, there[4], is(KernelEvent::IoctlDone)).ok_or("binder_ioctl_done")?;
    if received > call.served_from {
        // That of another call: this one's was not seen.
        return Err("binder_ioctl_done");
    }
    let back = one_way(within, server, client, call.served_to, REPLY)?;
    let (returned, ()) =
        within.first(client, back[4], is(KernelEvent::IoctlDone)).ok_or("binder_ioctl_done")?;
    let mut points = vec![call.send];
    points.extend(there);
    points.extend([received, call.served_to]);
    points.extend(back);
    points.extend([returned, call.exit]);
    Ok(points)
}

/// K_IOC, K_WR_IN, K_ENQ, K_DEQ and K_COPY of a transaction or a reply from one thread to another.
fn one_way(
    within: Within<'_>,
    from: Tid,
    to: Tid,
    begin: u64,
    commands: [u8; 2],
) -> Result<[u64; 5], &'static str> {
    let (ioctl, ()) = within.first(from, begin, is(KernelEvent::Ioctl)).ok_or("binder_ioctl")?;
    let command = |seen| match seen {
        KernelEvent::Command(number) => is_command(number, commands).then_some(()),
        _ => None,
    };
    let (written, ()) = within.first(from, ioctl, command).ok_or("binder_command")?;
    let transaction = |seen| if let KernelEvent::Transaction(id) = seen { Some(id) } else { None };
    let (made, id) = within.first(from, written, transaction).ok_or("binder_transaction")?;
    let (copied, ()) =
        within.first(to, made, is(KernelEvent::Received(id))).ok_or("binder_transaction_received")?;
    let woken = within.first(from, made, is(KernelEvent::Waking(to)));
    let done = within.first(from, made, is(KernelEvent::WriteDone));
    // A thread that was awake is not woken: then the write is over when the work is in its queue.
    let queued = [woken, done].into_iter().flatten().map(|(time, ())| time).find(|time| *time <= copied);
    let queued = queued.unwrap_or(made);
    let switched = within
        .0
        .iter()
        .rev()
        .find(|seen| seen.what == KernelEvent::SwitchTo(to) && (queued..=copied).contains(&seen.time));
    Ok([ioctl, written, queued, switched.map_or(queued, |seen| seen.time), copied])
}

fn is_command(number: u32, commands: [u8; 2]) -> bool {
    let [kind, index] = [(number >> 8) as u8, number as u8];
    kind == COMMAND_TYPE && commands.contains(&index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLIENT: Tid = 10;
    const SERVER: Tid = 20;

    fn stamps() -> Stamps {
        Stamps { send: 100, served_from: 210, served_to: 220, received: 340, exit: 350, server: SERVER }
    }

    fn transaction() -> Vec<Observation> {
        let on = |time, tid, what| Observation { time, tid, what };
        vec![
            on(90, CLIENT, KernelEvent::Ioctl),
            on(110, CLIENT, KernelEvent::Ioctl),
            on(118, CLIENT, KernelEvent::Command(0x4008_6303)),
            on(120, CLIENT, KernelEvent::Command(0x4040_6300)),
            on(130, CLIENT, KernelEvent::Transaction(7)),
            on(140, CLIENT, KernelEvent::Waking(SERVER)),
            on(145, CLIENT, KernelEvent::WriteDone),
            on(150, CLIENT, KernelEvent::SwitchTo(SERVER)),
            on(160, SERVER, KernelEvent::Received(7)),
            on(170, SERVER, KernelEvent::IoctlDone),
            on(230, SERVER, KernelEvent::Ioctl),
            on(240, SERVER, KernelEvent::Command(0x4040_6301)),
            on(250, SERVER, KernelEvent::Transaction(8)),
            on(260, SERVER, KernelEvent::Waking(CLIENT)),
            on(270, SERVER, KernelEvent::SwitchTo(99)),
            on(280, 0, KernelEvent::SwitchTo(CLIENT)),
            on(300, CLIENT, KernelEvent::Received(8)),
            on(310, CLIENT, KernelEvent::IoctlDone),
        ]
    }

    #[test]
    fn the_events_of_the_driver_that_is_there_are_recorded() {
        let folder = tempfile::tempdir().expect("a folder");
        let wanted = || {
            let config = config(&TraceFs::at(folder.path()));
            let mut systems: Vec<String> = config.events.into_iter().map(|event| event.system).collect();
            systems.dedup();
            systems
        };
        assert_eq!(wanted(), ["binder", "sched"], "the error names an event of the driver in C");
        std::fs::create_dir_all(folder.path().join("events/rust_binder/binder_ioctl")).expect("made");
        assert_eq!(wanted(), ["rust_binder", "sched"]);
        std::fs::create_dir_all(folder.path().join("events/binder/binder_ioctl")).expect("made");
        assert_eq!(wanted(), ["binder", "rust_binder", "sched"]);
    }

    #[test]
    fn all_fifteen_points_are_found() {
        let joined = join(&[stamps()], CLIENT, &transaction());
        assert_eq!(joined.lacking, None);
        assert_eq!(
            joined.rows,
            [[100, 110, 120, 140, 150, 160, 170, 220, 230, 240, 260, 280, 300, 310, 350]]
        );
        assert_eq!(joined.rows[0].len(), super::super::points::KERNEL.len());
    }

    #[test]
    fn a_server_that_was_awake_is_neither_woken_nor_switched_to() {
        let mut trace = transaction();
        trace
            .retain(|seen| !matches!(seen.what, KernelEvent::Waking(SERVER) | KernelEvent::SwitchTo(SERVER)));
        let rows = join(&[stamps()], CLIENT, &trace).rows;
        assert_eq!(rows[0][3..6], [145, 145, 160], "the end of the write stands for both");
    }

    #[test]
    fn what_another_thread_received_is_not_taken() {
        let mut trace = transaction();
        let received = trace.iter_mut().find(|seen| seen.what == KernelEvent::Received(7)).expect("there");
        received.what = KernelEvent::Received(6);
        let joined = join(&[stamps()], CLIENT, &trace);
        assert_eq!((joined.failed, joined.lacking), (1, Some("binder_transaction_received")));
    }

    #[test]
    fn the_end_of_another_ioctl_is_not_taken() {
        let mut trace = transaction();
        trace.retain(|seen| (seen.tid, seen.what) != (SERVER, KernelEvent::IoctlDone));
        trace.push(Observation { time: 305, tid: SERVER, what: KernelEvent::IoctlDone });
        trace.sort_by_key(|seen| seen.time);
        assert_eq!(join(&[stamps()], CLIENT, &trace).lacking, Some("binder_ioctl_done"));
    }

    fn any_observation() -> impl Strategy<Value = Observation> {
        let what = prop_oneof![
            Just(KernelEvent::Ioctl),
            Just(KernelEvent::IoctlDone),
            Just(KernelEvent::WriteDone),
            prop_oneof![Just(0x4040_6300u32), Just(0x4040_6301), any::<u32>()].prop_map(KernelEvent::Command),
            (0..3i32).prop_map(KernelEvent::Transaction),
            (0..3i32).prop_map(KernelEvent::Received),
            prop_oneof![Just(CLIENT), Just(SERVER)].prop_map(KernelEvent::Waking),
            prop_oneof![Just(CLIENT), Just(SERVER)].prop_map(KernelEvent::SwitchTo),
        ];
        (100..350u64, prop_oneof![Just(CLIENT), Just(SERVER)], what)
            .prop_map(|(time, tid, what)| Observation { time, tid, what })
    }

    proptest! {
        #[test]
        fn whatever_a_trace_holds_points_come_in_order(
            mut trace in proptest::collection::vec(any_observation(), 0..120),
        ) {
            trace.extend(transaction());
            trace.sort_by_key(|seen| seen.time);
            let joined = join(&[stamps()], CLIENT, &trace);
            prop_assert_eq!(joined.rows.len() as u64 + joined.failed, 1);
            for row in joined.rows {
                prop_assert!(row.len() == 15 && row.is_sorted(), "{:?}", row);
            }
        }
    }

    #[test]
    fn commands_are_told_by_their_numbers() {
        for (number, there, back) in [
            (0x4040_6300, true, false),
            (0x4048_6311, true, false),
            (0x4040_6301, false, true),
            (0x4048_6312, false, true),
            (0x4008_6303, false, false),
            (0x8040_7200, false, false),
        ] {
            assert_eq!(
                (is_command(number, TRANSACTION), is_command(number, REPLY)),
                (there, back),
                "{number:#x}"
            );
        }
    }
}
