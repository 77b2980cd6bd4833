"""Put threads where they should run, and how urgently; call services of other processes, and serve some.

CPUs are given as a name that means the same on every machine ("big", "llc:0", "0-3,5", "all,!0") or as
numbers. Priorities are "fifo:10", "rr:1", "other:-5", "batch" or "idle". A thread is its native id
(`threading.get_native_id()`), and the calling one where none is given.

    import handoff

    with handoff.placed("big", "other:-5") as cpus:
        ...                       # this thread runs on `cpus`; afterwards it is where it was

    handoff.pin_process(1234, "little")    # every thread, those born meanwhile too

Services are found by name, called with a code and a parcel, and served by a function. Handlers run on threads
of the runtime, several at once; the interpreter is free while a call waits.

    with handoff.connect() as runtime:
        request = handoff.Parcel()
        request.write_string("Ada")
        print(runtime.find("sample.greeter", timeout=5).call(1, request).read_string())

`handoff aidl build --lang python` makes proxies and stubs of `.aidl` files, which stand on `handoff.aidl`.
"""

from enum import IntEnum

from ._native import (
    Caller,
    DeadlineError,
    DeadObjectError,
    DeathWatch,
    FileDescriptor,
    HandoffError,
    NameTakenError,
    NoServiceError,
    Parcel,
    Remote,
    Runtime,
    WrongInterfaceError,
    allowed_cpus,
    connect,
    core_classes,
    current_cpu,
    get_priority,
    offer,
    pin_process,
    pin_thread,
    placed,
    resolve_cpus,
    set_foreground,
    set_priority,
)

__all__ = [
    "Caller",
    "DeadObjectError",
    "DeadlineError",
    "DeathWatch",
    "ExceptionCode",
    "FileDescriptor",
    "HandoffError",
    "NameTakenError",
    "NoServiceError",
    "Parcel",
    "Remote",
    "Runtime",
    "ServiceError",
    "WrongInterfaceError",
    "allowed_cpus",
    "connect",
    "core_classes",
    "current_cpu",
    "get_priority",
    "offer",
    "pin_process",
    "pin_thread",
    "placed",
    "resolve_cpus",
    "set_foreground",
    "set_priority",
]


class ExceptionCode(IntEnum):
    """What a service may refuse a call with, by AIDL's numbers."""

    SECURITY = -1
    BAD_PARCELABLE = -2
    ILLEGAL_ARGUMENT = -3
    NULL_POINTER = -4
    ILLEGAL_STATE = -5
    UNSUPPORTED_OPERATION = -7
    SERVICE_SPECIFIC = -8


class ServiceError(HandoffError):
    """The exception that a service answered with; raised by a handler, the one that its caller gets."""

    def __init__(self, exception: int, message: str = "", specific: int = 0) -> None:
        super().__init__(message)
        self.exception = exception
        self.message = message
        self.specific = specific

    def __str__(self) -> str:
        if self.exception == ExceptionCode.SERVICE_SPECIFIC:
            return f"service-specific error {self.specific}: {self.message}"
        try:
            name = ExceptionCode(self.exception).name.title().replace("_", "")
        except ValueError:
            name = str(self.exception)
        return f"{name} exception: {self.message}"
