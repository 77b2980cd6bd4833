"""Calls a service in C++, and hears of its death."""

import os
import queue
import sys
import tempfile

import handoff
from interfaces import CallbackStub, Color, EverythingProxy, Point, Record, Shape


class Callback(CallbackStub):
    def __init__(self):
        self.heard = queue.Queue()

    def happened(self, what, text):
        self.heard.put((what, text))


with handoff.connect() as runtime:
    cpp = EverythingProxy.find(runtime, "cpp.everything", timeout=60)
    record = Record(text="ünï😀", maybe=[None, "b"], other=Point(1, 2), shape=Shape.pixels(b"999"), next=Record())
    assert cpp.echo(record) == record
    assert (cpp.add(2, 3), cpp.maybe("x", True), cpp.maybe("x", False)) == (5, "x", None)
    assert cpp.next(Color.GREEN) is Color.BLUE
    assert cpp.points([None, Point(1, 2)]) == [None, Point(1, 2)]
    assert cpp.fill(5, 7) == [7] * 5
    assert cpp.grow(b"\x01\x02") == (b"\x01\x02\xff", Point(-3, 3))
    assert cpp.count_and_split(["a", "b"], 0, None) == (2, ["a"], Record())
    callback = Callback()
    for what in range(30):
        cpp.call(callback, what)
        assert callback.heard.get(timeout=60) == (what, "as asked")
    assert EverythingProxy(cpp.itself()).add(1, 1) == 2
    own = callback.binder()
    assert cpp.nobody(None) is None and cpp.nobody(own).is_same(own)
    with os.fdopen(cpp.open("made there").detach()) as file:
        assert file.read() == "made there"
    with tempfile.TemporaryFile() as file:
        file.write(b"twelve bytes")
        file.flush()
        with handoff.FileDescriptor(file) as copy:
            assert cpp.size(copy) == 12
    try:
        cpp.fail(17)
        raise SystemExit("it did not fail")
    except handoff.ServiceError as refused:
        assert refused.specific == 17 and "as asked" in str(refused)
    died = queue.Queue()
    watch = cpp.binder().on_death(lambda: died.put(True))
    print("ready", flush=True)
    assert died.get(timeout=60)
    try:
        cpp.add(1, 2)
        raise SystemExit("the dead answer")
    except handoff.DeadObjectError:
        pass
