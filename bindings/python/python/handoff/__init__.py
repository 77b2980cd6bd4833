"""Put threads where they should run, and how urgently.

CPUs are given as a name that means the same on every machine ("big", "llc:0", "0-3,5", "all,!0") or as
numbers. Priorities are "fifo:10", "rr:1", "other:-5", "batch" or "idle". A thread is its native id
(`threading.get_native_id()`), and the calling one where none is given.

    import handoff

    with handoff.placed("big", "other:-5") as cpus:
        ...                       # this thread runs on `cpus`; afterwards it is where it was

    handoff.pin_process(1234, "little")    # every thread, those born meanwhile too
"""

from ._native import (
    HandoffError,
    allowed_cpus,
    core_classes,
    current_cpu,
    get_priority,
    pin_process,
    pin_thread,
    placed,
    resolve_cpus,
    set_foreground,
    set_priority,
)

__all__ = [
    "HandoffError",
    "allowed_cpus",
    "core_classes",
    "current_cpu",
    "get_priority",
    "pin_process",
    "pin_thread",
    "placed",
    "resolve_cpus",
    "set_foreground",
    "set_priority",
]
