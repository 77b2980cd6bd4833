"""Reads a Perfetto trace with the definitions that Perfetto publishes, and prints what is in it as JSON.

Run as: perfetto_read.py FILE, with the package `perfetto` where Python finds it.
"""

import collections
import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

trace = pb.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

kinds = collections.Counter()
unknown = len(UnknownFieldSet(trace))
switches, begins, flows, ended, tracks = [], [], set(), set(), {}
opened, slices = collections.defaultdict(list), []
ends = counters = without_track = out_of_order = 0
for packet in trace.packet:
    unknown += len(UnknownFieldSet(packet))
    if packet.HasField("track_descriptor"):
        descriptor = packet.track_descriptor
        name = tracks.get(descriptor.parent_uuid, "") + " " + (descriptor.name or descriptor.thread.thread_name)
        tracks[descriptor.uuid] = name.strip()
        unknown += len(UnknownFieldSet(packet.track_descriptor))
    if packet.HasField("track_event"):
        event = packet.track_event
        unknown += len(UnknownFieldSet(event))
        without_track += event.track_uuid not in tracks
        if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            begins.append(event.name)
            opened[event.track_uuid].append((packet.timestamp, event.name))
        if event.type == pb.TrackEvent.TYPE_SLICE_END:
            start, name = opened[event.track_uuid].pop()
            slices.append([tracks.get(event.track_uuid), start, packet.timestamp, name])
        ends += event.type == pb.TrackEvent.TYPE_SLICE_END
        counters += event.type == pb.TrackEvent.TYPE_COUNTER
        flows.update(event.flow_ids)
        ended.update(event.terminating_flow_ids)
    if packet.HasField("ftrace_events"):
        bundle = packet.ftrace_events
        last = 0
        for event in bundle.event:
            kind = event.WhichOneof("event")
            kinds[kind] += 1
            unknown += len(UnknownFieldSet(event))
            unknown += len(UnknownFieldSet(getattr(event, kind))) if kind else 1
            out_of_order += event.timestamp < last
            last = event.timestamp
            if kind == "sched_switch":
                s = event.sched_switch
                switches.append([bundle.cpu, event.timestamp, s.prev_pid, s.next_pid, s.prev_prio,
                                 s.next_prio, s.prev_state, s.next_comm])
json.dump({
    "kinds": kinds,
    "unknown": unknown,
    "switches": switches,
    "begins": begins,
    "ends": ends,
    "slices": sorted(slices, key=lambda slice: slice[1]),
    "counters": counters,
    "without_track": without_track,
    "out_of_order": out_of_order,
    "flows": len(flows),
    "flows_without_end": len(flows ^ ended),
}, sys.stdout)
