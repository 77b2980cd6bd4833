"""Generated interfaces: the same calls to a service in Rust and to one in Python."""

import asyncio
import gc
import os
import queue
import tempfile
import threading
import time
import weakref

import pytest

import handoff
import interfaces
from everything import Benchmark, Everything
from handoff import aidl
from interfaces import (
    BenchmarkAsyncProxy,
    BenchmarkProxy,
    CallbackStub,
    Color,
    EverythingAsyncProxy,
    EverythingProxy,
    IEverything,
    Mode,
    MQDescriptor,
    Point,
    Record,
    Record_Inner,
    Record_Kind,
    SampleMessage,
    Shape,
)


@pytest.fixture
def runtime():
    with handoff.connect() as runtime:
        yield runtime


@pytest.fixture(params=["rust", "python", "here"])
def everything(request, runtime):
    """A service in Rust, one in Python, one of this very process that no name leads to."""
    if request.param == "rust":
        yield EverythingProxy.find(runtime, "rust.everything", timeout=60)
    elif request.param == "python":
        Everything().register(runtime, "test.everything")
        with handoff.connect() as other:
            yield EverythingProxy.find(other, "test.everything")
    else:
        yield EverythingProxy(Everything().binder())


def full() -> Record:
    return Record(
        flag=False,
        small=-128,
        text="ünï😀",
        nothing="",
        color=Color(77),
        mode=Mode.FAR,
        colors=[Color.BLUE, Color.RED, Color(-9)],
        bytes=b"\x01\x02\xff",
        texts=["a", ""],
        maybe=[None, "b"],
        list=["c"],
        point=Point(1, 2),
        other=Point(),
        points=[Point()] * 3,
        matrix=[[1, 2, 3], [4, 5, 6]],
        digest=b"\x07" * 40,
        shape=Shape.pixels(b"999"),
        inner=Record_Inner(Record_Kind.NONE, [Record_Inner(), None]),
        next=Record(),
    )


def test_values_of_every_type_come_back(everything):
    for record in [Record(), full()]:
        assert everything.echo(record) == record
    assert everything.add(2, 3) == 5
    assert (everything.maybe("x", True), everything.maybe("x", False), everything.maybe(None, True)) == ("x", None, None)
    assert everything.reverse(["a", "b"]) == ["b", "a"]
    assert everything.next(Color.GREEN) is Color.BLUE
    assert everything.all() == [Color.RED, Color.GREEN, Color.BLUE]
    assert everything.points(None) is None
    assert everything.points([None, Point(1, 2)]) == [None, Point(1, 2)]
    for shape in [Shape(), Shape.radius(1), Shape.corner(Point()), Shape.name(None), Shape.pixels(b"")]:
        assert everything.shape(shape) == shape
    assert everything.styled("abc") == "ABC"
    assert everything.turn([1, 2, 3]) == [3, 2, 1]
    assert everything.type(5, 3) == 2


def test_what_goes_out_and_both_ways_comes_back(everything):
    assert everything.fill(5, 7) == [7] * 5
    assert everything.grow(b"\x01\x02") == (b"\x01\x02\xff", Point(-3, 3))
    assert everything.count_and_split(["a", "b"], 0, None) == (2, ["a"], Record())
    assert everything.count_and_split([], 0, Record()) == (0, [], None)


def test_objects_and_files_travel(everything):
    class Callback(CallbackStub):
        def __init__(self):
            self.heard = queue.Queue()

        def happened(self, what, text):
            self.heard.put((what, text, aidl.caller().oneway))

    callback = Callback()
    for what in range(30):
        everything.call(callback, what)
        assert callback.heard.get(timeout=60) == (what, "as asked", True)
    assert EverythingProxy(everything.itself()).add(1, 1) == 2
    assert everything.nobody(None) is None
    own = callback.binder()
    assert everything.nobody(own).is_same(own) and not everything.nobody(own).is_same(everything.binder())
    with os.fdopen(everything.open("made there").detach()) as file:
        assert file.read() == "made there"
    with tempfile.TemporaryFile() as file:
        file.write(b"twelve bytes")
        file.flush()
        with handoff.FileDescriptor(file) as copy:
            assert everything.size(copy) == 12
        with pytest.raises(ValueError, match="closed"):
            everything.size(copy)
    with pytest.raises(OSError):
        handoff.FileDescriptor(987654)


def test_exceptions_versions_and_deadlines(everything):
    with pytest.raises(handoff.ServiceError, match="as asked") as refused:
        everything.fail(17)
    assert refused.value.specific == 17
    assert everything.interface_version() == IEverything.VERSION == 3
    assert everything.interface_hash() == IEverything.HASH
    assert everything.within(60).add(1, 2) == 3
    with pytest.raises(LookupError):
        aidl.caller()
    # What does not fit is refused before anything is sent.
    for wrong in [Record(small=128), Record(letter=-1), Record(number=1 << 31), Record(digest=b""), Record(matrix=[])]:
        with pytest.raises(ValueError):
            everything.echo(wrong)
    # Python has no queues, and a descriptor that describes none is refused by Rust.
    with pytest.raises(handoff.HandoffError):
        everything.sum(MQDescriptor(), 1)


def test_the_benchmark_sums(runtime):
    rust = BenchmarkProxy.find(runtime, "rust.benchmark", timeout=60)
    rust.write_message(SampleMessage(1000, b"\x03" * 1000))
    rust.write_message_oneway(SampleMessage(1000, b"\x03" * 1000))
    with pytest.raises(handoff.ServiceError) as refused:
        rust.write_message(SampleMessage(-5))
    assert refused.value.specific == -5
    service = Benchmark()
    BenchmarkProxy(service.binder()).write_message(SampleMessage(2, b"\x01\x02\x03"))
    assert service.sums == [3]


def test_parcels_that_a_peer_spoiled_are_errors(runtime):
    points, shape = 10, 11
    for remote in [runtime.find("rust.everything", timeout=60), Everything().binder()]:
        for code, words in [
            (shape, []),
            (shape, [0]),
            (shape, [1]),
            (shape, [1, 9]),
            (shape, [1, -1, 0]),
            (shape, [1, 3, 1 << 30]),
            (points, [-2]),
            (points, [1 << 30]),
            (points, [1, 1, 3]),
            (points, [1, 1, 1 << 20]),
            (points, [1, 1, -8]),
        ]:
            request = handoff.Parcel()
            for word in words:
                request.write_int(word)
            with pytest.raises(handoff.HandoffError):
                remote.call(code, request)
        # What a newer version adds is skipped, what an older one has not keeps its default.
        request = handoff.Parcel()
        for word in [2, 1, 16, 5, 6, 7, 1, 8, 9]:
            request.write_int(word)
        assert aidl.array(interfaces._Point).read(remote.call(points, request)) == [Point(5, 6), Point(9, 0)]


def test_a_stub_is_let_go_with_its_object():
    service = Everything()
    binder = service.binder()
    assert service.binder() is binder
    gone = weakref.ref(service)
    del service
    gc.collect()
    # The object holds it.
    assert EverythingProxy(binder).add(1, 1) == 2
    del binder
    gc.collect()
    assert gone() is None


def both(expected, found):
    return f"the object has the interface {found}, not {expected}"


def test_a_proxy_of_another_interface_is_refused(everything):
    wrong = BenchmarkProxy(everything.binder())
    for call in [wrong.write_message, wrong.write_message_oneway]:
        with pytest.raises(handoff.WrongInterfaceError, match=both(wrong.DESCRIPTOR, everything.DESCRIPTOR)):
            call(SampleMessage(1, b"x"))
    assert EverythingProxy(wrong.binder()).add(1, 2) == 3


def test_find_checks_the_interface(runtime):
    with pytest.raises(handoff.WrongInterfaceError, match=both(BenchmarkProxy.DESCRIPTOR, EverythingProxy.DESCRIPTOR)):
        BenchmarkProxy.find(runtime, "rust.everything", timeout=60)


def test_a_value_of_another_type_is_named_in_the_error(everything):
    with pytest.raises(TypeError, match="a Record is wanted, and not the str 'text'"):
        everything.echo("text")
    with pytest.raises(TypeError, match="a Shape is wanted, and not the int 3"):
        everything.shape(3)
    with pytest.raises(TypeError, match="a list is wanted, and not the str 'abc'"):
        everything.reverse("abc")
    with pytest.raises(TypeError, match="a proxy or a stub is wanted"):
        everything.call(everything.binder(), 1)


def test_a_name_that_is_taken_is_refused(runtime):
    Everything().register(runtime, "test.taken")
    with handoff.connect() as other:
        with pytest.raises(handoff.NameTakenError, match=f"test.taken.*process {os.getpid()} of user"):
            Everything().register(other, "test.taken")
        class Other(Everything):
            def add(self, a, b):
                return -1

        Other().register(other, "test.taken", replace=True)
        assert EverythingProxy.find(runtime, "test.taken").add(1, 2) == -1
    # It comes back.
    end = time.monotonic() + 60
    while EverythingProxy.find(runtime, "test.taken", timeout=60).add(1, 2) != 3:
        assert time.monotonic() < end


def test_exceptions_have_names_and_a_dead_dependency_is_no_death(runtime):
    class Fails(Benchmark):
        def write_message(self, message):
            if message.size == 0:
                raise handoff.DeadObjectError("the process that serves this object has died")
            raise handoff.ServiceError(handoff.ExceptionCode.ILLEGAL_ARGUMENT, "too large")

    failing = BenchmarkProxy(Fails().binder())
    with pytest.raises(handoff.ServiceError, match="^IllegalArgument exception: too large$"):
        failing.write_message(SampleMessage(1))
    text = "^IllegalState exception: a process that this service depends on has died$"
    with pytest.raises(handoff.ServiceError, match=text):
        failing.write_message(SampleMessage(0))


def test_asyncio_calls_without_threads(runtime):
    class Gate(Benchmark):
        def __init__(self):
            super().__init__()
            self.open = threading.Event()

        def write_message(self, message):
            assert self.open.wait(60)
            super().write_message(message)

    async def main():
        everything = await EverythingAsyncProxy.find(runtime, "rust.everything", timeout=60)
        sums = await asyncio.gather(*(everything.add(n, 1) for n in range(200)))
        assert sums == list(range(1, 201))
        assert await everything.within(60).echo(full()) == full()
        with pytest.raises(handoff.ServiceError, match="as asked"):
            await everything.fail(3)
        wrong = BenchmarkAsyncProxy(everything.binder())
        with pytest.raises(handoff.WrongInterfaceError, match=both(wrong.DESCRIPTOR, everything.DESCRIPTOR)):
            await wrong.write_message(SampleMessage(1, b"x"))
        # A call that is given up, and one whose time is over, while others go on.
        gate = Gate()
        gate.register(runtime, "test.gate")
        with handoff.connect() as other:
            held = await BenchmarkAsyncProxy.find(other, "test.gate", timeout=60)
            waiting = asyncio.ensure_future(held.write_message(SampleMessage(1, b"x")))
            with pytest.raises(handoff.DeadlineError):
                await held.within(0.05).write_message(SampleMessage(1, b"x"))
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            gate.open.set()
            await held.write_message(SampleMessage(1, b"\x05"))
            # The two that were given up go on beside it, and may come after it.
            assert 5 in gate.sums
            await held.write_message_oneway(SampleMessage(1, b"\x06"))

    asyncio.run(main())


def test_what_the_book_shows():
    # ANCHOR: service
    import handoff
    from handoff import aidl
    from interfaces import BenchmarkProxy, BenchmarkStub, SampleMessage

    class Benchmark(BenchmarkStub):
        def write_message(self, message: SampleMessage) -> None:
            print(sum(message.data[: message.size]), "from user", aidl.caller().uid)

        def write_message_oneway(self, message: SampleMessage) -> None:
            pass

    with handoff.connect() as runtime:
        Benchmark().register(runtime, "sample.benchmark")
        benchmark = BenchmarkProxy.find(runtime, "sample.benchmark", timeout=5)
        benchmark.within(5).write_message(SampleMessage(size=2, data=b"hello"))
    # ANCHOR_END: service
    with handoff.connect() as runtime:
        benchmark = BenchmarkProxy.find(runtime, "rust.benchmark", timeout=60)
        # ANCHOR: death
        watch = benchmark.binder().on_death(lambda: print("it has died"))  # as long as `watch` is kept
        # ANCHOR_END: death
        del watch
        Benchmark().register(runtime, "sample.benchmark")
        calls_of_the_book()


def calls_of_the_book():
    # ANCHOR: asyncio
    import asyncio

    import handoff
    from interfaces import BenchmarkAsyncProxy, SampleMessage

    async def main() -> None:
        with handoff.connect() as runtime:
            benchmark = await BenchmarkAsyncProxy.find(runtime, "sample.benchmark", timeout=5)
            message = SampleMessage(size=2, data=b"hello")
            await asyncio.gather(*(benchmark.write_message(message) for _ in range(100)))

    asyncio.run(main())
    # ANCHOR_END: asyncio
