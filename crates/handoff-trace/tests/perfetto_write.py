"""Writes a trace with the definitions that Perfetto publishes, in the forms that its recorders use.

Run as: perfetto_write.py FILE, with the package `perfetto` where Python finds it.
"""

import sys
import zlib

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

trace = pb.Trace()

tree = trace.packet.add().process_tree
tree.processes.add(pid=70, ppid=1, cmdline=["/usr/bin/client", "--once"])
tree.threads.add(tid=71, name="worker", tgid=70)

# Switches and wake-ups in columns; a thousand events make the numbers longer than one byte.
bundle = trace.packet.add().ftrace_events
bundle.cpu = 3
compact = bundle.compact_sched
compact.intern_table.extend(["worker", "swapper/3"])
for index in range(1000):
    compact.switch_timestamp.append(1_000_000_000 if index == 0 else 1_000)
    compact.switch_prev_state.append(0 if index % 2 else 1)
    compact.switch_next_pid.append(71 if index % 2 else 0)
    compact.switch_next_prio.append(97 if index % 2 else 120)
    compact.switch_next_comm_index.append(0 if index % 2 else 1)
for index in range(500):
    compact.waking_timestamp.append(1_000_000_500 if index == 0 else 2_000)
    compact.waking_pid.append(71)
    compact.waking_target_cpu.append(3)
    compact.waking_prio.append(97)
    compact.waking_comm_index.append(0)
    compact.waking_common_flags.append(8)

# Events in full, behind a loss, in a compressed packet.
inner = pb.Trace()
bundle = inner.packet.add().ftrace_events
bundle.cpu = 0
bundle.lost_events = True
event = bundle.event.add(timestamp=1_000_100_000, pid=70)
event.binder_transaction.debug_id = 5
event.binder_transaction.flags = 0x10
event = bundle.event.add(timestamp=1_000_200_000, pid=71)
event.binder_transaction_received.debug_id = 5
event = bundle.event.add(timestamp=1_000_300_000, pid=70)
event.sched_pi_setprio.pid = 71
event.sched_pi_setprio.oldprio = 120
event.sched_pi_setprio.newprio = -1
# One that other readers know.
bundle.event.add(timestamp=1_000_300_001, pid=70).sched_process_free.pid = 9
trace.packet.add().compressed_packets = zlib.compress(inner.SerializeToString())

# A thread's slices, the inner one with an interned name; and one of a clock of its own.
track = trace.packet.add().track_descriptor
track.uuid = 2**63 + 5
track.thread.pid = 70
track.thread.tid = 71
for time, kind, name, interned in [(10, 1, "outer", 0), (20, 1, "", 4), (30, 2, "", 0), (40, 2, "", 0)]:
    packet = trace.packet.add(timestamp=1_000_000_000 + time, trusted_packet_sequence_id=9)
    if interned:
        packet.interned_data.event_names.add(iid=interned, name="inner")
        packet.track_event.name_iid = interned
    packet.track_event.type = kind
    packet.track_event.track_uuid = track.uuid
    if name:
        packet.track_event.name = name
packet = trace.packet.add(timestamp=7, timestamp_clock_id=64, trusted_packet_sequence_id=10)
packet.track_event.type = 1
packet.track_event.track_uuid = track.uuid

with open(sys.argv[1], "wb") as file:
    file.write(trace.SerializeToString())
