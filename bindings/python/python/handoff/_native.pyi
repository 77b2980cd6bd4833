from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Optional, Union, final

from typing_extensions import TypeAlias

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

_Cpus: TypeAlias = Union[str, Sequence[int]]

class HandoffError(OSError):
    """A placement that could not be had, with the reason."""

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
