//! Binder's transactions as slices: the caller's from sending to the reply, the callee's while it serves,
//! and an arrow from the one to the other.

use std::collections::{HashMap, HashSet};

use super::{BEGIN, BINDER, END, File, INSTANT};
use crate::event::{EventKind, Tid};
use crate::model::requests::{Carrier, requests};
use crate::model::timeline::Timeline;

/// The fields by which a flow goes on, and ends.
const FLOW: u64 = 47;
const FLOW_END: u64 = 48;

/// One end of a slice, or an instant.
struct Edge {
    tid: Tid,
    time: u64,
    kind: u64,
    name: String,
    /// The arrow that it has, by the field that says which end of it.
    flow: Option<(u64, u64)>,
}

impl File<'_> {
    pub(super) fn binder(&mut self, timeline: &Timeline) {
        let mut edges = self.calls(timeline);
        edges.extend(self.oneways());
        // Calls of one thread are nested: in the order of time, each end is that of the newest begin.
        edges.sort_by_key(|edge| (edge.tid, edge.time));
        let mut known = HashSet::new();
        for edge in edges {
            let track = BINDER | u64::from(edge.tid.unsigned_abs());
            if known.insert(edge.tid) {
                self.named_track(track, edge.tid, "binder");
            }
            self.packet(Some(edge.time), |packet| {
                packet.message(11, |event| {
                    event.number(9, edge.kind);
                    event.number(11, track);
                    if edge.kind != END {
                        event.text(22, "binder");
                        event.text(23, &edge.name);
                    }
                    if let Some((field, flow)) = edge.flow {
                        event.fixed64(field, flow);
                    }
                });
            });
        }
    }

    fn task(&self, tid: Tid, time: u64) -> String {
        format!("{} {tid}", self.trace.name(tid, time))
    }

    fn calls(&self, timeline: &Timeline) -> Vec<Edge> {
        let all = requests(self.trace, timeline).into_iter().enumerate();
        all.filter(|(_, call)| call.carrier == Carrier::Binder)
            .flat_map(|(index, call)| {
                let flow = BINDER + 2 * index as u64;
                let slice = |tid, (start, end), name, field| {
                    let end = Edge { tid, time: end, kind: END, name: String::new(), flow: None };
                    [Edge { tid, time: start, kind: BEGIN, name, flow: Some((field, flow)) }, end]
                };
                let calls = format!("calls {}", self.task(call.callee, call.start));
                let caller = slice(call.caller, (call.start, call.end), calls, FLOW);
                let serves = format!("serves {}", self.task(call.caller, call.start));
                let callee = call.served.map(|served| slice(call.callee, served, serves, FLOW_END));
                caller.into_iter().chain(callee.into_iter().flatten())
            })
            .collect()
    }

    /// Transactions that nobody waits for: two instants.
    fn oneways(&self) -> Vec<Edge> {
        let mut sent: HashMap<i32, (Tid, u64)> = HashMap::new();
        let mut edges = Vec::new();
        for event in self.trace.events() {
            match event.what {
                EventKind::BinderTransaction { debug_id, oneway: true, .. } => {
                    sent.insert(debug_id, (event.tid, event.time));
                }
                EventKind::BinderReceived { debug_id } => {
                    let Some((sender, time)) = sent.remove(&debug_id) else { continue };
                    let flow = BINDER + 1 + edges.len() as u64;
                    let sends = format!("sends to {}", self.task(event.tid, event.time));
                    let takes = format!("is sent by {}", self.task(sender, time));
                    for (tid, time, name, field) in
                        [(sender, time, sends, FLOW), (event.tid, event.time, takes, FLOW_END)]
                    {
                        edges.push(Edge { tid, time, kind: INSTANT, name, flow: Some((field, flow)) });
                    }
                }
                _ => {}
            }
        }
        edges
    }
}
