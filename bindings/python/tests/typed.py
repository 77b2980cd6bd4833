"""A program as the types want it; mypy reads it, nobody runs it."""

import os

import handoff


def work(cpus: list[int]) -> int:
    with handoff.placed("big", "other:5") as granted:
        first: int = granted[0]
    classes: list[tuple[str, list[int]]] = handoff.core_classes()
    process: list[int] = handoff.pin_process(os.getpid(), cpus)
    priority: str = handoff.get_priority()
    handoff.set_priority(priority, thread=None)
    handoff.set_foreground(os.getpid(), False)
    try:
        return first + len(classes) + len(process) + handoff.current_cpu()
    except handoff.HandoffError as error:
        raise SystemExit(error.strerror) from error


def begin_and_end(pid: int) -> None:
    # ANCHOR: placed
    with handoff.placed("big", "other:-5") as cpus:
        print("works on", cpus)
    handoff.pin_process(pid, "little")
    # ANCHOR_END: placed
