"""What a Python programmer is promised; run by `cargo test -p handoff-python`, or by pytest."""

import os
import threading

import pytest

import handoff


def test_names_mean_cpus():
    assert handoff.resolve_cpus("all") == sorted(handoff.resolve_cpus("all"))
    assert set(handoff.allowed_cpus()) == os.sched_getaffinity(0)
    assert handoff.current_cpu() in handoff.allowed_cpus()
    assert handoff.core_classes()


def test_a_block_is_placed_and_restored_also_on_an_exception():
    before = os.sched_getaffinity(0)
    first = min(before)
    with pytest.raises(KeyError):
        with handoff.placed([first], "batch:12") as cpus:
            assert cpus == [first] and os.sched_getaffinity(0) == {first}
            assert handoff.get_priority() == "batch:12"
            raise KeyError
    assert os.sched_getaffinity(0) == before
    if os.geteuid() == 0:
        assert not handoff.get_priority().startswith("batch")


def test_a_whole_process_is_pinned():
    before = handoff.allowed_cpus()
    stop = threading.Event()
    others = [threading.Thread(target=stop.wait) for _ in range(8)]
    for other in others:
        other.start()
    try:
        granted = handoff.pin_process(os.getpid(), before[:1])
        assert granted == before[:1]
        for other in others:
            assert handoff.allowed_cpus(other.native_id) == before[:1]
    finally:
        handoff.pin_process(os.getpid(), before)
        stop.set()
        for other in others:
            other.join()


def test_errors_say_why():
    with pytest.raises(handoff.HandoffError, match="did you mean `big`"):
        handoff.resolve_cpus("bgi")
    with pytest.raises(OSError, match="not online"):
        handoff.pin_thread([5000])
    with pytest.raises(handoff.HandoffError, match="is not a priority"):
        handoff.set_priority("fast")
    with pytest.raises(TypeError, match="out of range"):
        handoff.pin_thread([-1])


def test_a_placement_belongs_to_one_block():
    block = handoff.placed(priority="other")
    with block:
        with pytest.raises(RuntimeError):
            block.__enter__()
