//! Perfetto trace files, which ui.perfetto.dev and `trace_processor` open.
//!
//! Scheduling events go in as ftrace bundles, one for each CPU and slice of time, so that the viewer
//! makes its CPU and thread tracks of them; what programs noted of themselves, Binder's transactions with
//! arrows from caller to callee, and the wake-ups with arrows from waker to woken, go in as track events.
//! Time stamps stay those of the trace.
//!
//! [`from_bytes`] reads such files, whoever wrote them.
//!
//! Reference: `protos/perfetto/trace` of Perfetto; the field numbers are those of
//! `trace_packet.proto`, `ftrace/*.proto` and `track_event/*.proto`.

mod binder;
mod read;
mod wire;

pub use read::from_bytes;

use std::collections::BTreeMap;

use crate::event::{Cpu, Event, EventKind, Tid, Wakee};
use crate::model::timeline::{State, Timeline};
use crate::trace::Trace;
use wire::Message;

/// Every packet needs one; ours are all of one writer.
const SEQUENCE: u64 = 1;

/// Events go into bundles of at most so many, as `traced_probes` writes them by page.
const BUNDLE: usize = 512;

/// Kinds of tracks, in the upper half of their number; the lower is the task.
const SLICES: u64 = 1 << 32;
const WAKES: u64 = 2 << 32;
const WAITING: u64 = 3 << 32;
const BINDER: u64 = 4 << 32;

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// What goes into the file beside the scheduling events and the slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Arrows from each waker to whom it woke. They double the size.
    pub arrows: bool,
    /// A counter of the tasks that wait for a CPU.
    pub waiting: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { arrows: true, waiting: true }
    }
}

/// The bytes of a Perfetto trace file.
pub fn to_bytes(trace: &Trace, timeline: &Timeline, options: Options) -> Vec<u8> {
    let mut file = File { out: Message::default(), trace };
    file.clocks();
    file.processes();
    file.scheduling();
    file.slices();
    file.binder(timeline);
    if options.arrows {
        file.arrows(timeline);
    }
    if options.waiting {
        file.waiting(timeline);
    }
    file.out.into_bytes()
}

struct File<'a> {
    out: Message,
    trace: &'a Trace,
}

impl File<'_> {
    fn packet(&mut self, time: Option<u64>, fill: impl FnOnce(&mut Message)) {
        self.out.message(1, |packet| {
            if let Some(time) = time {
                packet.number(8, time);
            }
            packet.number(10, SEQUENCE);
            fill(packet);
        });
    }

    /// Says that the clocks a reader may ask for are all that of the trace, so that it shows our
    /// time stamps as they are.
    fn clocks(&mut self) {
        const MONOTONIC: u64 = 3;
        const BOOTTIME: u64 = 6;
        let start = self.trace.span().map_or(0, |(start, _)| start);
        self.packet(None, |packet| {
            packet.message(6, |snapshot| {
                for clock in [BOOTTIME, MONOTONIC] {
                    snapshot.message(1, |entry| {
                        entry.number(1, clock);
                        entry.number(2, start);
                    });
                }
            });
        });
    }

    /// Which task belongs to which process.
    fn processes(&mut self) {
        let trace = self.trace;
        let mut processes: BTreeMap<Tid, Vec<Tid>> = BTreeMap::new();
        for (tid, process) in trace.processes() {
            processes.entry(*process).or_default().push(*tid);
        }
        let start = trace.span().map_or(0, |(start, _)| start);
        self.packet(Some(start), |packet| {
            packet.message(2, |tree| {
                for (process, tasks) in &mut processes {
                    tree.message(1, |entry| {
                        entry.signed(1, i64::from(*process));
                        entry.text(3, &trace.last_name(*process));
                    });
                    tasks.sort_unstable();
                    for tid in tasks.iter().filter(|tid| *tid != process) {
                        tree.message(2, |entry| {
                            entry.signed(1, i64::from(*tid));
                            entry.text(2, &trace.last_name(*tid));
                            entry.signed(3, i64::from(*process));
                        });
                    }
                }
            });
        });
    }

    /// The events of each CPU as `FtraceEventBundle`s.
    fn scheduling(&mut self) {
        let trace = self.trace;
        let mut by_cpu: BTreeMap<Cpu, Vec<&Event>> = BTreeMap::new();
        for event in trace.events().iter().filter(|event| !not_written(event.what)) {
            by_cpu.entry(event.cpu).or_default().push(event);
        }
        for (cpu, events) in by_cpu {
            let lost_before = |event: &Event| trace.is_gap(event.time, cpu);
            for events in events.chunk_by(|_, next| !lost_before(next)).flat_map(|part| part.chunks(BUNDLE)) {
                self.packet(None, |packet| {
                    packet.message(1, |bundle| {
                        bundle.number(1, cpu.into());
                        events.iter().for_each(|event| ftrace_event(trace, event, bundle));
                        if events.first().is_some_and(|first| lost_before(first)) {
                            bundle.number(3, 1);
                        }
                    });
                });
            }
        }
    }

    /// What programs noted of themselves, on a track of each thread.
    fn slices(&mut self) {
        let trace = self.trace;
        let mut last = None;
        for slice in trace.slices() {
            let track = SLICES | u64::from(slice.tid.unsigned_abs());
            if last != Some(slice.tid) {
                self.thread_track(track, slice.tid);
                last = Some(slice.tid);
            }
            for (time, kind) in [(slice.start, BEGIN), (slice.end, END)] {
                self.packet(Some(time), |packet| {
                    packet.message(11, |event| {
                        event.number(9, kind);
                        event.number(11, track);
                        if kind == BEGIN {
                            event.text(22, "handoff");
                            event.text(23, &slice.name);
                        }
                    });
                });
            }
        }
    }

    /// An arrow for each wake-up: an instant where it was made, and one where the woken ran.
    fn arrows(&mut self, timeline: &Timeline) {
        let trace = self.trace;
        let mut known = std::collections::HashSet::new();
        for (index, wake) in timeline.wakes.iter().enumerate() {
            let Some((ran, _)) = wake.ran else { continue };
            if wake.interrupt || wake.early || wake.waker == 0 {
                continue;
            }
            let flow = index as u64 + 1;
            let ends = [
                (wake.time, wake.waker, 47, format!("wakes {} {}", trace.name(wake.wakee, ran), wake.wakee)),
                (
                    ran,
                    wake.wakee,
                    48,
                    format!("woken by {} {}", trace.name(wake.waker, wake.time), wake.waker),
                ),
            ];
            for (time, tid, flow_field, name) in ends {
                let track = WAKES | u64::from(tid.unsigned_abs());
                if known.insert(tid) {
                    self.named_track(track, tid, "wake-ups");
                }
                self.packet(Some(time), |packet| {
                    packet.message(11, |event| {
                        event.number(9, INSTANT);
                        event.number(11, track);
                        event.text(22, "wake-ups");
                        event.text(23, &name);
                        event.fixed64(flow_field, flow);
                    });
                });
            }
        }
    }

    /// How many tasks wait for a CPU, as a counter.
    fn waiting(&mut self, timeline: &Timeline) {
        let mut changes: Vec<(u64, i64)> = timeline
            .tasks
            .values()
            .flat_map(|line| &line.intervals)
            .filter(|interval| matches!(interval.state, State::Runnable { .. }) && interval.length() > 0)
            .flat_map(|interval| [(interval.start, 1), (interval.end, -1)])
            .collect();
        changes.sort_unstable();
        self.packet(None, |packet| {
            packet.message(60, |track| {
                track.number(1, WAITING);
                track.text(2, "tasks waiting for a CPU");
                track.message(8, |_counter| {});
            });
        });
        let mut count = 0;
        let mut changes = changes.into_iter().peekable();
        while let Some((time, change)) = changes.next() {
            count += change;
            // What happens at one moment is one change.
            if changes.peek().is_some_and(|next| next.0 == time) {
                continue;
            }
            self.packet(Some(time), |packet| {
                packet.message(11, |event| {
                    event.number(9, COUNTER);
                    event.number(11, WAITING);
                    event.signed(30, count);
                });
            });
        }
    }

    fn thread_track(&mut self, track: u64, tid: Tid) {
        let trace = self.trace;
        self.packet(None, |packet| {
            packet.message(60, |descriptor| {
                descriptor.number(1, track);
                descriptor.message(4, |thread| {
                    thread.signed(1, i64::from(trace.process(tid).unwrap_or(tid)));
                    thread.signed(2, i64::from(tid));
                    thread.text(5, &trace.last_name(tid));
                });
            });
        });
    }

    /// A track below that of a thread.
    fn named_track(&mut self, track: u64, tid: Tid, name: &str) {
        let parent = SLICES | u64::from(tid.unsigned_abs());
        self.thread_track(parent, tid);
        self.packet(None, |packet| {
            packet.message(60, |descriptor| {
                descriptor.number(1, track);
                descriptor.text(2, name);
                descriptor.number(5, parent);
            });
        });
    }
}

/// Adds one `FtraceEvent` to its bundle.
fn ftrace_event(trace: &Trace, event: &Event, bundle: &mut Message) {
    bundle.message(2, |out| {
        out.number(1, event.time);
        out.number(2, u64::from(event.tid.unsigned_abs()));
        if event.context.0 != 0 {
            out.number(5, event.context.0.into());
        }
        let name =
            |tid| if tid == 0 { format!("swapper/{}", event.cpu) } else { trace.name(tid, event.time) };
        let wake = |message: &mut Message, wakee: Wakee| {
            message.text(1, &name(wakee.tid));
            message.signed(2, wakee.tid.into());
            message.signed(3, wakee.prio.into());
            message.signed(4, 1);
            message.signed(5, wakee.cpu.into());
        };
        match event.what {
            EventKind::Switch { prev, next, prev_prio, next_prio, prev_state } => out.message(4, |switch| {
                switch.text(1, &name(prev));
                switch.signed(2, prev.into());
                switch.signed(3, prev_prio.into());
                switch.signed(4, prev_state.0.into());
                switch.text(5, &name(next));
                switch.signed(6, next.into());
                switch.signed(7, next_prio.into());
            }),
            EventKind::Waking(wakee) => out.message(20, |message| wake(message, wakee)),
            EventKind::Wakeup(wakee) => out.message(17, |message| wake(message, wakee)),
            EventKind::WakeupNew(wakee) => out.message(114, |message| wake(message, wakee)),
            EventKind::Migrate { tid, from, to } => out.message(491, |message| {
                message.text(1, &name(tid));
                message.signed(2, tid.into());
                message.signed(4, from.into());
                message.signed(5, to.into());
            }),
            EventKind::PriorityInherited { tid, old, new } => out.message(353, |message| {
                message.text(1, &name(tid));
                message.signed(2, new.into());
                message.signed(3, old.into());
                message.signed(4, tid.into());
            }),
            EventKind::IrqEntry { irq } => out.message(36, |message| message.signed(1, irq.into())),
            EventKind::IrqExit { irq } => out.message(37, |message| message.signed(1, irq.into())),
            EventKind::SoftIrqEntry { vector } => out.message(24, |message| message.number(1, vector.into())),
            EventKind::SoftIrqExit { vector } => out.message(25, |message| message.number(1, vector.into())),
            EventKind::Idle { cpu, state } => out.message(13, |message| {
                // The way out is state (u32)-1, as the kernel writes it.
                message.number(1, state.map_or(u32::MAX.into(), u64::from));
                message.number(2, cpu.into());
            }),
            EventKind::Frequency { cpu, khz } => out.message(11, |message| {
                message.number(1, khz.into());
                message.number(2, cpu.into());
            }),
            EventKind::Marker(index) => out.message(3, |message| {
                message.text(2, trace.text(index).unwrap_or_default());
            }),
            EventKind::Fork { parent, child } => out.message(239, |message| {
                message.text(1, &name(parent));
                message.signed(2, parent.into());
                message.text(3, &name(child));
                message.signed(4, child.into());
            }),
            EventKind::Exec { .. } | EventKind::Exit { .. } => {}
            EventKind::BinderTransaction { .. } | EventKind::BinderReceived { .. } | EventKind::Other(_) => {}
        }
    });
}

/// Events of which too little is kept to write them as Perfetto has them.
fn not_written(what: EventKind) -> bool {
    let of_binder = matches!(what, EventKind::BinderTransaction { .. } | EventKind::BinderReceived { .. });
    of_binder || matches!(what, EventKind::Exec { .. } | EventKind::Exit { .. } | EventKind::Other(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks, trace, wakeup, waking};

    #[test]
    fn a_file_is_a_row_of_packets() {
        let mut trace = trace(vec![waking(1, 0, 1, 2, 1), wakeup(2, 0, 1, 2, 1), blocks(5, 1, 0, 2)]);
        trace.add_slices([crate::Slice { name: "call".into(), tid: 1, start: 1, end: 4 }]);
        let bytes = to_bytes(&trace, &Timeline::of(&trace), Options::default());
        let few = Options { arrows: false, waiting: false };
        let fewer = to_bytes(&trace, &Timeline::of(&trace), few);
        let packets: Vec<_> = wire::Fields(&bytes).collect::<Result<_, _>>().expect("whole packets");
        assert!(packets.iter().all(|(field, _)| *field == 1));
        // Clocks, processes, a bundle for each of two CPUs, a track and two ends of the slice; then
        // two ends of an arrow with two tracks each, and the counter with its two changes.
        assert_eq!(wire::Fields(&fewer).filter(Result::is_ok).count(), 7);
        assert_eq!(packets.len(), 7 + 6 + 3);
    }
}
