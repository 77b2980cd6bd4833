from collections.abc import Awaitable, Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Optional, Protocol, Union, final

from typing_extensions import TypeAlias

__all__ = [
    "Bundle",
    "Caller",
    "DeadObjectError",
    "DeadlineError",
    "DeathWatch",
    "FileDescriptor",
    "HandoffError",
    "Holder",
    "NameTakenError",
    "NoServiceError",
    "Parcel",
    "Remote",
    "Runtime",
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
    "read_bundle",
    "read_holder",
    "resolve_cpus",
    "set_foreground",
    "set_priority",
    "write_bundle",
    "write_holder",
]

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

_Cpus: TypeAlias = Union[str, Sequence[int]]

class HandoffError(OSError):
    """What could not be had, with the reason."""

@final
class placed:
    """A `with` block on some CPUs, at some priority; gives the CPUs that were granted."""

    def __new__(cls, cpus: Optional[_Cpus] = None, priority: Optional[str] = None) -> placed: ...
    def __enter__(self) -> list[int]: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> Literal[False]: ...

def allowed_cpus(thread: Optional[int] = None) -> list[int]:
    """The CPUs that a thread may use."""

def resolve_cpus(cpus: _Cpus) -> list[int]:
    """The CPUs that a name means on this machine."""

def core_classes() -> list[tuple[str, list[int]]]:
    """The core classes, slowest first; one, called "all", where cores are alike."""

def current_cpu() -> int:
    """The CPU that this thread runs on now."""

def pin_thread(cpus: _Cpus, thread: Optional[int] = None) -> list[int]:
    """Lets one thread run on these CPUs only; gives those that were granted."""

def pin_process(pid: int, cpus: _Cpus) -> list[int]:
    """Lets every thread of a process run on these CPUs only, those born meanwhile too."""

def get_priority(thread: Optional[int] = None) -> str:
    """Policy and priority of a thread, such as "other:5"."""

def set_priority(priority: str, thread: Optional[int] = None) -> None:
    """Gives a thread a policy and priority."""

def set_foreground(pid: int, foreground: bool = True) -> str:
    """Tells the running policy that a process came to the foreground, or left it."""

class DeadObjectError(HandoffError):
    """The process that serves the object has died."""

class DeadlineError(HandoffError):
    """The reply did not come within the call's deadline."""

class WrongInterfaceError(HandoffError):
    """The object has another interface than its caller means; nothing was sent."""

class NameTakenError(HandoffError):
    """Another process has registered this name."""

class NoServiceError(HandoffError):
    """No service is registered under this name."""

@final
class Parcel:
    """The values of a call or a reply, read in the order in which they were written."""

    def __new__(cls) -> Parcel: ...
    @property
    def remaining(self) -> int: ...
    def write_bool(self, value: bool) -> None: ...
    def write_int(self, value: int) -> None: ...
    def write_long(self, value: int) -> None: ...
    def write_double(self, value: float) -> None: ...
    def write_string(self, value: str) -> None: ...
    def write_bytes(self, value: bytes) -> None: ...
    def write_string8(self, value: str) -> None:
        """Text that travels as UTF-8."""

    def write_raw(self, value: bytes) -> None:
        """Bytes without a length; zeros follow up to a multiple of four."""

    def write_object(self, value: Optional[Remote]) -> None: ...
    def write_file(self, value: FileDescriptor) -> None:
        """The receiver gets a copy of its own."""

    def begin_sized(self) -> None:
        """Begins a parcelable: its size goes in front of what is written until `end_sized`."""

    def end_sized(self) -> None: ...
    def read_bool(self) -> bool: ...
    def read_int(self) -> int: ...
    def read_long(self) -> int: ...
    def read_double(self) -> float: ...
    def read_string(self) -> str: ...
    def read_bytes(self) -> bytes: ...
    def read_raw(self, size: int) -> bytes: ...
    def read_nullable_string(self) -> Optional[str]: ...
    def read_nullable_string8(self) -> Optional[str]: ...
    def read_object(self) -> Optional[Remote]: ...
    def read_file(self) -> FileDescriptor: ...
    def enter_sized(self) -> None:
        """Goes into a parcelable: until `leave`, nothing behind its end is read."""

    def enter_tagged(self) -> int:
        """Goes into a union until `leave`; gives its tag."""

    def leave(self) -> None:
        """Leaves what was entered last; what a newer version added to a parcelable is skipped."""

@final
class Holder:
    """A parcelable as it travels, with its type's name: what `handoff.aidl.ParcelableHolder` is made of."""

    def __new__(cls, stable: bool) -> Holder: ...
    @property
    def is_empty(self) -> bool: ...
    def set(self, descriptor: str, stable: bool, value: Parcel) -> None: ...
    def get(self, descriptor: str) -> Optional[Parcel]: ...
    def clear(self) -> None: ...

@final
class Bundle:
    """Values under names: what `handoff.aidl.PersistableBundle` is made of."""

    def __new__(cls) -> Bundle: ...
    def put(self, kind: str, name: str, value: object) -> None: ...
    def get(self, name: str) -> Optional[tuple[str, Any]]: ...
    def remove(self, name: str) -> bool: ...
    def names(self) -> list[str]: ...
    def __len__(self) -> int: ...

def write_holder(to: Parcel, value: Holder) -> None: ...
def read_holder(source: Parcel, stable: bool) -> Holder: ...
def write_bundle(to: Parcel, value: Bundle) -> None: ...
def read_bundle(source: Parcel) -> Optional[Bundle]: ...
@final
class FileDescriptor:
    """A file descriptor of its own, closed with the object: a copy of that of a file, a socket, a number."""

    def __new__(cls, file: Union[int, _HasFileno]) -> FileDescriptor: ...
    def fileno(self) -> int: ...
    def detach(self) -> int:
        """Gives the descriptor away: it is the caller's to close."""

    def close(self) -> None: ...
    def __enter__(self) -> FileDescriptor: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> Literal[False]: ...

@final
class Caller:
    """Who calls, as the kernel vouches for it."""

    @property
    def pid(self) -> int: ...
    @property
    def uid(self) -> int: ...
    @property
    def gid(self) -> int: ...
    @property
    def oneway(self) -> bool: ...

@final
class Runtime:
    """A connection to the service manager, and what was registered through it."""

    def find(self, name: str, timeout: float = 0.0) -> Remote:
        """The service of this name, waiting so many seconds for it to be registered."""

    def serve(
        self,
        name: str,
        descriptor: str,
        handler: Callable[[Caller, int, Parcel], Optional[Parcel]],
        replace: bool = False,
    ) -> None:
        """Registers a service: `handler(caller, code, request)` gives the reply, or raises `ServiceError`;
        `NotImplementedError` says that there is no such transaction. `NameTakenError` if another process has the
        name, unless `replace` takes it: that process has it again when this one ends."""

    def register(self, name: str, object: Remote, replace: bool = False) -> None:
        """Registers an object that `offer` made, or a generated stub's `binder()`; `replace` as of `serve`."""

    def close(self) -> None:
        """Takes back what was registered, and ends the connection."""

    def __enter__(self) -> Runtime: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> Literal[False]: ...

@final
class Remote:
    """A reference to an object, of another process mostly."""

    def call(self, code: int, request: Optional[Parcel] = None, timeout: Optional[float] = None) -> Parcel:
        """Calls a transaction and waits for its reply, so many seconds at the most."""

    def call_async(
        self, code: int, request: Optional[Parcel] = None, timeout: Optional[float] = None
    ) -> Awaitable[Parcel]:
        """`call` from a task of asyncio: no thread waits. Cancelled, the call is given up."""

    def call_oneway(self, code: int, request: Optional[Parcel] = None) -> None:
        """Queues a call whose result nobody waits for."""

    def descriptor(self) -> str:
        """The name of the object's interface."""

    def expecting(self, descriptor: str) -> Remote:
        """The same object, whose calls fail with `WrongInterfaceError` if it has another interface than this one."""

    def check_interface(self, descriptor: str) -> None:
        """`WrongInterfaceError`, which names both, unless the object has this interface or one that extends it."""

    def is_same(self, other: Remote) -> bool:
        """True if both are references to one object."""

    def is_alive(self) -> bool:
        """False once the object's process is known to be gone."""

    def on_death(self, died: Callable[[], object]) -> DeathWatch:
        """Calls `died()` once, on a thread of the runtime, when the object's process ends; at once if it has.
        What is given must be kept: dropped, it takes the recipient back."""

@final
class DeathWatch:
    """A death recipient that is in place."""

    def cancel(self) -> None:
        """Takes it back."""

def offer(
    descriptor: str,
    handler: Callable[[Caller, int, Parcel], Optional[Parcel]],
    bases: Sequence[str] = ...,
) -> Remote:
    """An object of this process, for others to call; the handler is as that of `Runtime.serve`. `bases` are the
    descriptors of the interfaces that its own extends."""

def connect(socket: Optional[Union[str, PathLike[str]]] = None) -> Runtime:
    """Connects to the service manager at a socket, or where `$HANDOFF_SOCKET` says, or at the usual place."""
