"""Calls and services, as a Python programmer is promised them. `$HANDOFF_SOCKET` leads to a manager with the
service `test.rust`: 1 echoes every kind of value, 2 refuses, 3 waits, 4 ends its process, 5 counts,
6 waits until as many calls of it as it is told have come, and says whether they did."""

import concurrent.futures
import threading
import time

import pytest

import handoff


@pytest.fixture
def runtime():
    with handoff.connect() as runtime:
        yield runtime


def test_values_of_every_kind_come_back(runtime):
    rust = runtime.find("test.rust")
    assert rust.descriptor() == "test.IRust" and rust.is_alive()
    request = handoff.Parcel()
    request.write_bool(True)
    request.write_int(-7)
    request.write_long(1 << 40)
    request.write_double(0.25)
    request.write_string("Łódź 🦀")
    request.write_bytes(b"\x00\x01\x02")
    reply = rust.call(1, request)
    assert reply.read_bool() is True
    assert reply.read_int() == -7
    assert reply.read_long() == 1 << 40
    assert reply.read_double() == 0.25
    assert reply.read_string() == "Łódź 🦀"
    assert reply.read_bytes() == b"\x00\x01\x02"
    assert reply.remaining == 0
    with pytest.raises(handoff.HandoffError, match="bad parcel"):
        reply.read_int()


def test_failures_are_exceptions_of_their_kind(runtime):
    rust = runtime.find("test.rust")
    with pytest.raises(handoff.ServiceError, match="as asked") as refused:
        rust.call(2)
    assert refused.value.exception == handoff.ExceptionCode.SERVICE_SPECIFIC
    assert (refused.value.specific, refused.value.message) == (42, "as asked")
    with pytest.raises(handoff.DeadlineError):
        rust.call(3, timeout=0.05)
    with pytest.raises(handoff.HandoffError, match="no transaction with code 99"):
        rust.call(99)
    with pytest.raises(handoff.NoServiceError):
        runtime.find("test.nobody")
    with pytest.raises(ValueError):
        runtime.find("test.rust", timeout=-1)


def test_other_threads_run_while_a_call_waits(runtime):
    rust = runtime.find("test.rust")

    def meet():
        request = handoff.Parcel()
        request.write_int(8)
        return rust.call(6, request).read_bool()

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        # Each waits in the service until all are there: one after the other they never would be.
        calls = [threads.submit(meet) for _ in range(8)]
        assert all(call.result() for call in calls)


def test_a_oneway_call_arrives(runtime):
    rust = runtime.find("test.rust")
    before = rust.call(5).read_int()
    rust.call_oneway(5)
    deadline = time.monotonic() + 60
    while rust.call(5).read_int() < before + 2:
        assert time.monotonic() < deadline


def test_python_serves_python_and_what_it_raises_reaches_the_caller(runtime):
    def serve(caller, code, request):
        if code == 1:
            reply = handoff.Parcel()
            reply.write_int(request.read_int() + 1)
            return reply
        if code == 2:
            raise handoff.ServiceError(handoff.ExceptionCode.SECURITY, "not you")
        if code == 3:
            return None
        if code == 4:
            return {}["missing"]
        if code == 5:
            runtime.find("test.nobody")
        raise NotImplementedError

    runtime.serve("test.python", "test.IPython", serve)
    with handoff.connect() as other:
        python = other.find("test.python")
        request = handoff.Parcel()
        request.write_int(41)
        assert python.call(1, request).read_int() == 42
        assert python.call(3).remaining == 0
        for code, exception in [(2, handoff.ExceptionCode.SECURITY), (4, handoff.ExceptionCode.ILLEGAL_STATE)]:
            with pytest.raises(handoff.ServiceError) as refused:
                python.call(code)
            assert refused.value.exception == exception
        # What the handler itself called failed: that says nothing about its caller's arguments.
        with pytest.raises(handoff.ServiceError, match="test.nobody") as refused:
            python.call(5)
        assert refused.value.exception == handoff.ExceptionCode.ILLEGAL_STATE
        # An argument that is not there.
        with pytest.raises(handoff.ServiceError) as refused:
            python.call(1)
        assert refused.value.exception == handoff.ExceptionCode.BAD_PARCELABLE
        with pytest.raises(handoff.HandoffError, match="no transaction"):
            python.call(9)


def test_the_death_of_a_service_is_heard(runtime):
    mortal = runtime.find("test.mortal")
    died = threading.Event()
    cancelled = mortal.on_death(lambda: pytest.fail("this one was taken back"))
    cancelled.cancel()
    watch = mortal.on_death(died.set)
    with pytest.raises(handoff.DeadObjectError):
        mortal.call(4)
    assert died.wait(60)
    assert not mortal.is_alive()
    watch.cancel()


def test_a_connection_that_was_closed_says_so():
    runtime = handoff.connect()
    runtime.close()
    with pytest.raises(handoff.HandoffError, match="closed"):
        runtime.find("test.rust")
    with pytest.raises(handoff.HandoffError, match="no service manager"):
        handoff.connect("/nowhere/manager.sock")
