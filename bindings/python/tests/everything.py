"""Services in Python with the interfaces of the examples and of the benchmark, as `handoff aidl build --lang python` makes
`interfaces` of them: what Rust's in examples/tests/everything are. Run, it serves until its input ends."""

import os
import sys
import tempfile
import threading
from typing import Optional

import handoff
from handoff import aidl
from interfaces import (
    BenchmarkStub,
    Color,
    EverythingStub,
    ICallback,
    MQDescriptor,
    Point,
    Record,
    SampleMessage,
    Shape,
)


class Benchmark(BenchmarkStub):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sums: list[int] = []

    def _sum(self, data: bytes) -> None:
        with self.lock:
            self.sums.append(sum(data))

    def write_message(self, message: SampleMessage) -> None:
        if message.size < 0:
            raise handoff.ServiceError(
                handoff.ExceptionCode.SERVICE_SPECIFIC, "a negative size", message.size
            )
        self._sum(message.data[: message.size])

    def write_message_oneway(self, message: SampleMessage) -> None:
        assert aidl.caller().oneway
        self._sum(message.data)


class Everything(EverythingStub):
    def echo(self, record: Record) -> Record:
        return record

    def add(self, a: int, b: int) -> int:
        return a + b

    def maybe(self, text: Optional[str], wanted: bool) -> Optional[str]:
        return text if wanted else None

    def reverse(self, texts: list[str]) -> list[str]:
        return texts[::-1]

    def fill(self, numbers_length: int, with_: int) -> list[int]:
        return [with_] * numbers_length

    def grow(self, bytes: bytes) -> tuple[bytes, Point]:
        return bytes + b"\xff", Point(y=len(bytes) + 1)

    def count_and_split(
        self, words: list[str], first_length: int, record: Optional[Record]
    ) -> tuple[int, list[str], Optional[Record]]:
        return len(words), words[:1], Record() if record is None else None

    def next(self, color: Color) -> Color:
        return Color(color + 1)

    def all(self) -> list[Color]:
        return list(Color)

    def points(self, points: Optional[list[Optional[Point]]]) -> Optional[list[Optional[Point]]]:
        return points

    def shape(self, shape: Shape) -> Shape:
        return shape

    def itself(self) -> handoff.Remote:
        return self.binder()

    def nobody(self, object: Optional[handoff.Remote]) -> Optional[handoff.Remote]:
        return object

    def call(self, callback: ICallback, what: int) -> None:
        callback.happened(what, "as asked")

    def open(self, text: str) -> handoff.FileDescriptor:
        with tempfile.TemporaryFile() as file:
            file.write(text.encode())
            file.seek(0)
            return handoff.FileDescriptor(file)

    def size(self, file: handoff.FileDescriptor) -> int:
        return os.stat(file.fileno()).st_size

    def styled(self, text: str) -> str:
        return text.upper()

    def turn(self, numbers: list[int]) -> list[int]:
        return numbers[::-1]

    def sum(self, queue: MQDescriptor, count: int) -> int:
        raise handoff.ServiceError(handoff.ExceptionCode.UNSUPPORTED_OPERATION, "queues are for Rust")

    def fail(self, code: int) -> None:
        raise handoff.ServiceError(handoff.ExceptionCode.SERVICE_SPECIFIC, "as asked", code)

    def type(self, self_: int, crate: int) -> int:
        return self_ - crate


def main() -> None:
    with handoff.connect() as runtime:
        Benchmark().register(runtime, "python.benchmark")
        Everything().register(runtime, "python.everything")
        print("there", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
