"""What generated interfaces stand on: `handoff aidl build --lang python` writes modules that import this one.

A generated module has, for an interface `IFoo`, the abstract class `IFoo`, the class `FooProxy`, which calls the
object of another process, and `FooStub`, whose subclasses are services. Names are Python's: `writeMessage` is
`write_message`, and one that means something to Python or to this module has an underscore behind it. What comes
back through `out` and `inout` parameters is returned, behind the result; of an `out` array the caller gives the
length.

    class Benchmark(BenchmarkStub):
        def write_message(self, message: SampleMessage) -> None:
            print(len(message.data), "bytes from user", aidl.caller().uid)

    Benchmark().register(runtime, "sample.benchmark")
    BenchmarkProxy.find(runtime, "sample.benchmark", timeout=5).write_message(SampleMessage(2, b"hi"))
"""

from __future__ import annotations

import abc
import asyncio
import contextvars
import struct
import threading
import weakref
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Callable, ClassVar, Generic, Optional, TypeVar

from . import Caller, ExceptionCode, FileDescriptor, HandoffError, Parcel, Remote, Runtime, ServiceError, offer
from ._native import Holder, read_bundle, read_holder, write_bundle, write_holder
from .bundle import PersistableBundle, bundle_of

T = TypeVar("T")
E = TypeVar("E", bound="Enum")
P = TypeVar("P", bound="Proxy")
A = TypeVar("A", bound="AsyncProxy")

_VERSION, _HASH = 0xFFFFFF, 0xFFFFFE
_caller: contextvars.ContextVar[Caller] = contextvars.ContextVar("handoff caller")
_making = threading.Lock()


def caller() -> Caller:
    """Who calls the method of a stub that is running; `LookupError` elsewhere."""
    return _caller.get()


class Enum(IntEnum):
    """An enum of an interface. A newer peer may send numbers without a name: they are values, too."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if not isinstance(value, int):
            return None
        unnamed = int.__new__(cls, value)
        unnamed._name_ = f"{cls.__name__}({value})"
        unnamed._value_ = value
        return unnamed


class Codec(abc.ABC, Generic[T]):
    """How values of one type stand in a parcel."""

    #: The fewest bytes that a value takes: a count is checked against what is left before anything is made.
    least = 4

    @abc.abstractmethod
    def write(self, to: Parcel, value: T) -> None:
        """Appends a value."""

    @abc.abstractmethod
    def read_nullable(self, source: Parcel) -> Optional[T]:
        """Takes a value or null."""

    def write_null(self, to: Parcel) -> None:
        """Appends a null."""
        to.write_int(0)

    def read(self, source: Parcel) -> T:
        """Takes a value."""
        value = self.read_nullable(source)
        if value is None:
            raise HandoffError("bad parcel: null where a value is required")
        return value

    def write_items(self, to: Parcel, items: Sequence[T]) -> None:
        """Appends the items of an array."""
        for item in items:
            self.write(to, item)

    def read_items(self, source: Parcel, count: int) -> list[T]:
        """Takes the items of an array."""
        return [self.read(source) for _ in range(count)]


class _Bool(Codec[bool]):
    def write(self, to: Parcel, value: bool) -> None:
        to.write_bool(value)

    def read_nullable(self, source: Parcel) -> Optional[bool]:
        return source.read_bool()


class _Number(Codec[int]):
    """A whole number of so many bits; in 32 bits at the least, but for bytes in arrays."""

    def __init__(self, name: str, bits: int, signed: bool) -> None:
        self.name, self.bits, self.signed = name, bits, signed
        self.low = -(1 << (bits - 1)) if signed else 0
        self.wide = 64 if bits == 64 else 32
        self.least = 1 if bits == 8 else self.wide // 8

    def checked(self, value: int) -> int:
        if not self.low <= value < self.low + (1 << self.bits):
            raise ValueError(f"{value} does not fit {self.name}")
        return value & ((1 << self.wide) - 1)

    def meant(self, raw: int) -> int:
        return ((raw - self.low) & ((1 << self.bits) - 1)) + self.low

    def write(self, to: Parcel, value: int) -> None:
        to.write_raw(self.checked(value).to_bytes(self.wide // 8, "little"))

    def read_nullable(self, source: Parcel) -> Optional[int]:
        return self.read(source)

    def read(self, source: Parcel) -> int:
        return self.meant(int.from_bytes(source.read_raw(self.wide // 8), "little"))

    def write_items(self, to: Parcel, items: Sequence[int]) -> None:
        raw = [self.checked(item) & ((1 << 8 * self.least) - 1) for item in items]
        to.write_raw(struct.pack(f"<{len(raw)}{self._letter()}", *raw))

    def read_items(self, source: Parcel, count: int) -> list[int]:
        raw = struct.unpack(f"<{count}{self._letter()}", source.read_raw(count * self.least))
        return [self.meant(item) for item in raw]

    def _letter(self) -> str:
        return {1: "B", 4: "I", 8: "Q"}[self.least]


class _Float(Codec[float]):
    def __init__(self, letter: str) -> None:
        self.letter, self.least = letter, struct.calcsize(letter)

    def write(self, to: Parcel, value: float) -> None:
        self.write_items(to, [value])

    def read_nullable(self, source: Parcel) -> Optional[float]:
        return self.read_items(source, 1)[0]

    def write_items(self, to: Parcel, items: Sequence[float]) -> None:
        to.write_raw(struct.pack(f"<{len(items)}{self.letter}", *items))

    def read_items(self, source: Parcel, count: int) -> list[float]:
        return list(struct.unpack(f"<{count}{self.letter}", source.read_raw(count * self.least)))


class _Counted(Codec[T]):
    """What has a length in front, which is -1 for null."""

    def write_null(self, to: Parcel) -> None:
        to.write_int(-1)


class _String(_Counted[str]):
    def write(self, to: Parcel, value: str) -> None:
        to.write_string(value)

    def read_nullable(self, source: Parcel) -> Optional[str]:
        return source.read_nullable_string()


class _CharSequence(Codec[str]):
    _PLAIN = 1

    def write(self, to: Parcel, value: str) -> None:
        to.write_int(1)
        to.write_int(self._PLAIN)
        to.write_string8(value)

    def read_nullable(self, source: Parcel) -> Optional[str]:
        if source.read_int() == 0:
            return None
        kind = source.read_int()
        text = source.read_nullable_string8()
        if kind != self._PLAIN and source.read_int() != 0:
            raise HandoffError("bad parcel: text with styles, which only Java can read")
        return text


class _Bytes(_Counted[bytes]):
    def __init__(self, size: Optional[int] = None) -> None:
        self.size = size

    def write(self, to: Parcel, value: bytes) -> None:
        if self.size is not None and len(value) != self.size:
            raise ValueError(f"an array of {self.size} bytes is wanted, not one of {len(value)}")
        to.write_bytes(value)

    def read_nullable(self, source: Parcel) -> Optional[bytes]:
        count = _count(source, 1)
        value = None if count is None else source.read_raw(count)
        if value is not None and self.size is not None and len(value) != self.size:
            raise HandoffError(f"bad parcel: an array of {self.size} bytes is wanted and one of {len(value)} came")
        return value


def _unlike(wanted: str, value: object) -> str:
    return f"{wanted} is wanted, and not the {type(value).__name__} {value!r}"


def _count(source: Parcel, least: int) -> Optional[int]:
    count = source.read_int()
    if count == -1:
        return None
    if count < 0 or count * least > source.remaining:
        raise HandoffError(f"bad parcel: a count of {count} in front of {source.remaining} bytes")
    return count


class _Object(Codec[Remote]):
    least = 24

    def write(self, to: Parcel, value: Remote) -> None:
        to.write_object(value)

    def write_null(self, to: Parcel) -> None:
        to.write_object(None)

    def read_nullable(self, source: Parcel) -> Optional[Remote]:
        return source.read_object()


class _File(Codec[FileDescriptor]):
    least = 24

    def write(self, to: Parcel, value: FileDescriptor) -> None:
        to.write_int(1)
        to.write_int(0)
        to.write_file(value)

    def read_nullable(self, source: Parcel) -> Optional[FileDescriptor]:
        if source.read_int() == 0:
            return None
        if source.read_int() != 0:
            raise HandoffError("bad parcel: a file descriptor with a status channel, which is not supported")
        return source.read_file()


class _BareFile(Codec[FileDescriptor]):
    least = 24

    def write(self, to: Parcel, value: FileDescriptor) -> None:
        to.write_file(value)

    def write_null(self, to: Parcel) -> None:
        raise ServiceError(ExceptionCode.NULL_POINTER, "a bare file descriptor cannot be null")

    def read_nullable(self, source: Parcel) -> Optional[FileDescriptor]:
        return source.read_file()


class _Nullable(Codec[Optional[T]]):
    def __init__(self, inner: Codec[T]) -> None:
        self.inner, self.least = inner, min(inner.least, 4)

    def write(self, to: Parcel, value: Optional[T]) -> None:
        if value is None:
            self.inner.write_null(to)
        else:
            self.inner.write(to, value)

    def read_nullable(self, source: Parcel) -> Optional[T]:
        return self.inner.read_nullable(source)

    def read(self, source: Parcel) -> Optional[T]:
        return self.inner.read_nullable(source)


class _Required(Codec[Optional[T]]):
    def __init__(self, what: str, inner: Codec[T]) -> None:
        self.what, self.inner, self.least = what, inner, inner.least

    def write(self, to: Parcel, value: Optional[T]) -> None:
        if value is None:
            raise ServiceError(ExceptionCode.NULL_POINTER, f"{self.what} must be set and is not")
        self.inner.write(to, value)

    def read_nullable(self, source: Parcel) -> Optional[T]:
        return self.inner.read(source)


class _Array(_Counted["list[T]"]):
    def __init__(self, item: Codec[T], size: Optional[int] = None) -> None:
        self.item, self.size = item, size

    def write(self, to: Parcel, value: list[T]) -> None:
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise TypeError(_unlike("a list", value))
        if self.size is not None and len(value) != self.size:
            raise ValueError(f"an array of {self.size} items is wanted, not one of {len(value)}")
        to.write_int(len(value))
        self.item.write_items(to, value)

    def read_nullable(self, source: Parcel) -> Optional[list[T]]:
        count = _count(source, self.item.least)
        if count is None:
            return None
        if self.size is not None and count != self.size:
            raise HandoffError(f"bad parcel: an array of {self.size} items is wanted and one of {count} came")
        return self.item.read_items(source, count)


class _Enumeration(Codec[E]):
    def __init__(self, kind: type[E], numbers: Codec[int]) -> None:
        self.kind, self.numbers, self.least = kind, numbers, numbers.least

    def write(self, to: Parcel, value: E) -> None:
        self.numbers.write(to, int(value))

    def read_nullable(self, source: Parcel) -> Optional[E]:
        return self.kind(self.numbers.read(source))

    def write_items(self, to: Parcel, items: Sequence[E]) -> None:
        self.numbers.write_items(to, [int(item) for item in items])

    def read_items(self, source: Parcel, count: int) -> list[E]:
        return [self.kind(number) for number in self.numbers.read_items(source, count)]


class _Held(Codec[T]):
    """What a `ParcelableHolder` can hold: a parcelable or a union, of a name and a stability."""

    descriptor = ""
    stable = False

    @abc.abstractmethod
    def write_held(self, to: Parcel, value: T) -> None:
        """Appends a value without the mark that it is not null."""

    @abc.abstractmethod
    def read_held(self, source: Parcel) -> T:
        """Takes what `write_held` wrote."""

    def write(self, to: Parcel, value: T) -> None:
        to.write_int(1)
        self.write_held(to, value)

    def read_nullable(self, source: Parcel) -> Optional[T]:
        return None if source.read_int() == 0 else self.read_held(source)


#: How values of a class that a module was made with stand in a parcel.
_codecs: dict[object, _Held[Any]] = {}


class ParcelableHolder:
    """A parcelable or union of any type, such as what a vendor adds; or nothing. It stays as it travels until it is asked
    for. `stable` is whether the parcelable around it is `@VintfStability`."""

    def __init__(self, stable: bool = False) -> None:
        self._held = Holder(stable)

    def set(self, value: object) -> None:
        """Puts a value in, in the place of what was there; `ServiceError` if its type promises less than it must."""
        codec, parcel = _codec_of(type(value)), Parcel()
        codec.write_held(parcel, value)
        self._held.set(codec.descriptor, codec.stable, parcel)

    def get(self, kind: type[T]) -> Optional[T]:
        """The value, if one of this type is there."""
        codec = _codec_of(kind)
        parcel = self._held.get(codec.descriptor)
        return None if parcel is None else codec.read_held(parcel)

    def clear(self) -> None:
        """Lets go what is there."""
        self._held.clear()

    def __bool__(self) -> bool:
        return not self._held.is_empty


def _codec_of(kind: type[T]) -> _Held[T]:
    codec = _codecs.get(kind)
    if codec is None or not codec.descriptor:
        raise TypeError(f"{kind.__name__} is no parcelable or union of an interface")
    return codec


class _Holder(Codec[ParcelableHolder]):
    def __init__(self, stable: bool) -> None:
        self.stable = stable

    def write(self, to: Parcel, value: ParcelableHolder) -> None:
        if not isinstance(value, ParcelableHolder):
            raise TypeError(_unlike("a ParcelableHolder", value))
        write_holder(to, value._held)

    def read_nullable(self, source: Parcel) -> Optional[ParcelableHolder]:
        holder = ParcelableHolder(self.stable)
        holder._held = read_holder(source, self.stable)
        return holder


class _BundleCodec(Codec[PersistableBundle]):
    def write(self, to: Parcel, value: PersistableBundle) -> None:
        if not isinstance(value, PersistableBundle):
            raise TypeError(_unlike("a PersistableBundle", value))
        write_bundle(to, value.native)

    def read_nullable(self, source: Parcel) -> Optional[PersistableBundle]:
        native = read_bundle(source)
        return None if native is None else bundle_of(native)


class _Structure(_Held[T]):
    """A parcelable: that it is not null, its size, its fields."""

    def __init__(self, kind: Callable[..., T], fields: Callable[[], Sequence[tuple[str, Codec[Any]]]]) -> None:
        self.kind, self.of, self.known = kind, fields, False
        self.fields: Sequence[tuple[str, Codec[Any]]] = ()

    def _fields(self) -> Sequence[tuple[str, Codec[Any]]]:
        # Not before every class of the module is there.
        if not self.known:
            self.fields = self.of()
            self.known = True
        return self.fields

    def write_held(self, to: Parcel, value: T) -> None:
        if isinstance(self.kind, type) and not isinstance(value, self.kind):
            raise TypeError(_unlike(f"a {self.kind.__name__}", value))
        to.begin_sized()
        for name, codec in self._fields():
            codec.write(to, getattr(value, name))
        to.end_sized()

    def read_held(self, source: Parcel) -> T:
        source.enter_sized()
        values = {}
        for name, codec in self._fields():
            # An older version has written no more: the rest is as it is without being set.
            if source.remaining == 0:
                break
            values[name] = codec.read(source)
        source.leave()
        return self.kind(**values)


class _Union(_Held[T]):
    """A union: that it is not null, the number of its field, the value."""

    def __init__(self, kind: Callable[..., T], fields: Callable[[], Sequence[tuple[str, Codec[Any]]]]) -> None:
        self.structure = _Structure(kind, fields)

    def write_held(self, to: Parcel, value: Any) -> None:
        kind = self.structure.kind
        if isinstance(kind, type) and not isinstance(value, kind):
            raise TypeError(_unlike(f"a {kind.__name__}", value))
        for number, (name, codec) in enumerate(self.structure._fields()):
            if name == value.tag:
                to.write_int(number)
                return codec.write(to, value.value)
        raise ValueError(f"{type(value).__name__} has no field {value.tag!r}")

    def read_held(self, source: Parcel) -> T:
        number, fields = source.enter_tagged(), self.structure._fields()
        if not 0 <= number < len(fields):
            raise HandoffError(f"bad parcel: a union has no field {number}")
        name, codec = fields[number]
        value = codec.read(source)
        source.leave()
        return self.structure.kind(name, value)


class Interface(abc.ABC):
    """An interface, whoever implements it."""

    DESCRIPTOR: ClassVar[str]
    #: The version that the module was made from, and the hash of its files.
    VERSION: ClassVar[Optional[int]] = None
    HASH: ClassVar[Optional[str]] = None

    @abc.abstractmethod
    def binder(self) -> Remote:
        """The object itself."""


class _Interface(Codec[T]):
    least = 24

    def __init__(self, proxy: Callable[[], Callable[[Remote], T]]) -> None:
        self.proxy = proxy

    def write(self, to: Parcel, value: Any) -> None:
        if not isinstance(value, Interface):
            raise TypeError(_unlike("a proxy or a stub", value))
        to.write_object(value.binder())

    def write_null(self, to: Parcel) -> None:
        to.write_object(None)

    def read_nullable(self, source: Parcel) -> Optional[T]:
        remote = source.read_object()
        return None if remote is None else self.proxy()(remote)


class Proxy(Interface):
    """Calls an object of another process."""

    def __init__(self, remote: Remote, timeout: Optional[float] = None) -> None:
        # Calls to an object of another interface are refused.
        self._remote, self._timeout = remote.expecting(self.DESCRIPTOR), timeout

    @classmethod
    def find(cls: type[P], runtime: Runtime, name: str, timeout: float = 0.0) -> P:
        """The service of this name, waiting so many seconds for it to be registered; `WrongInterfaceError` if it
        has another interface."""
        found = runtime.find(name, timeout)
        found.check_interface(cls.DESCRIPTOR)
        return cls(found)

    def binder(self) -> Remote:
        return self._remote

    def within(self: P, seconds: float) -> P:
        """The same object, whose calls fail when they take longer."""
        return type(self)(self._remote, seconds)

    def interface_version(self) -> int:
        """The version that the service was made from."""
        return INT.read(self._call(_VERSION, Parcel()))

    def interface_hash(self) -> str:
        """The hash of the files that the service was made from."""
        return STRING.read(self._call(_HASH, Parcel()))

    def _call(self, code: int, request: Parcel) -> Parcel:
        return self._remote.call(code, request, self._timeout)

    def _call_oneway(self, code: int, request: Parcel) -> None:
        self._remote.call_oneway(code, request)


class AsyncProxy:
    """Calls an object of another process from tasks of asyncio; no thread waits."""

    DESCRIPTOR: ClassVar[str]

    def __init__(self, remote: Remote, timeout: Optional[float] = None) -> None:
        self._remote, self._timeout = remote.expecting(self.DESCRIPTOR), timeout

    @classmethod
    async def find(cls: type[A], runtime: Runtime, name: str, timeout: float = 0.0) -> A:
        """As `Proxy.find`, on a thread of the loop's executor."""

        def find() -> Remote:
            found = runtime.find(name, timeout)
            found.check_interface(cls.DESCRIPTOR)
            return found

        return cls(await asyncio.get_running_loop().run_in_executor(None, find))

    def binder(self) -> Remote:
        """The object itself."""
        return self._remote

    def within(self: A, seconds: float) -> A:
        """The same object, whose calls fail when they take longer."""
        return type(self)(self._remote, seconds)

    async def _call(self, code: int, request: Parcel) -> Parcel:
        return await self._remote.call_async(code, request, self._timeout)

    def _call_oneway(self, code: int, request: Parcel) -> None:
        self._remote.call_oneway(code, request)


class Stub(Interface):
    """Serves an interface: subclasses implement its methods, which several threads may run at once."""

    _CODES: ClassVar[Mapping[int, str]] = {}
    _object: Optional[weakref.ref[Remote]] = None

    def binder(self) -> Remote:
        with _making:
            known = self._object() if self._object is not None else None
            if known is None:
                known = offer(self.DESCRIPTOR, self._on_transact, self._bases())
                # Weakly: the object holds this one, and goes when nobody refers to it.
                self._object = weakref.ref(known)
            return known

    def register(self, runtime: Runtime, name: str, replace: bool = False) -> None:
        """Registers the service under a name; `NameTakenError` if another process has it and `replace` is not set."""
        runtime.register(name, self.binder(), replace)

    def _bases(self) -> list[str]:
        """Descriptors of the interfaces that this one extends, nearest first."""
        all = [kind.__dict__["DESCRIPTOR"] for kind in type(self).__mro__ if "DESCRIPTOR" in kind.__dict__]
        return [descriptor for descriptor in all if descriptor != self.DESCRIPTOR]

    def _on_transact(self, caller: Caller, code: int, request: Parcel) -> Parcel:
        reply = Parcel()
        if code in self._CODES:
            token = _caller.set(caller)
            try:
                getattr(self, "_serve_" + self._CODES[code])(request, reply)
            finally:
                _caller.reset(token)
        elif code == _VERSION and self.VERSION is not None:
            reply.write_int(self.VERSION)
        elif code == _HASH and self.HASH is not None:
            reply.write_string(self.HASH)
        else:
            raise NotImplementedError
        return reply


BOOL: Codec[bool] = _Bool()
BYTE: Codec[int] = _Number("a byte", 8, True)
UBYTE: Codec[int] = _Number("an unsigned byte", 8, False)
SHORT: Codec[int] = _Number("a short", 16, True)
CHAR: Codec[int] = _Number("a char", 16, False)
INT: Codec[int] = _Number("an int", 32, True)
UINT: Codec[int] = _Number("an unsigned int", 32, False)
LONG: Codec[int] = _Number("a long", 64, True)
ULONG: Codec[int] = _Number("an unsigned long", 64, False)
FLOAT: Codec[float] = _Float("f")
DOUBLE: Codec[float] = _Float("d")
STRING: Codec[str] = _String()
CHAR_SEQUENCE: Codec[str] = _CharSequence()
BYTES: Codec[bytes] = _Bytes()
OBJECT: Codec[Remote] = _Object()
FILE: Codec[FileDescriptor] = _File()
BARE_FILE: Codec[FileDescriptor] = _BareFile()
BUNDLE: Codec[PersistableBundle] = _BundleCodec()


def nullable(inner: Codec[T]) -> Codec[Optional[T]]:
    """A value or `None`."""
    return _Nullable(inner)


def required(what: str, inner: Codec[T]) -> Codec[Optional[T]]:
    """A field without a default: `None` until it is set, and not to be sent before."""
    return _Required(what, inner)


def array(item: Codec[T]) -> Codec[list[T]]:
    """An array of any length."""
    return _Array(item)


def fixed(item: Codec[T], size: int) -> Codec[list[T]]:
    """An array of one length."""
    return _Array(item, size)


def fixed_bytes(size: int) -> Codec[bytes]:
    """So many bytes."""
    return _Bytes(size)


def enumeration(kind: type[E], numbers: Codec[int]) -> Codec[E]:
    """An enum with its backing type."""
    return _Enumeration(kind, numbers)


def _known(codec: _Held[T], kind: object, descriptor: str, stable: bool) -> Codec[T]:
    codec.descriptor, codec.stable = descriptor, stable
    _codecs[kind] = codec
    return codec


def structure(
    kind: Callable[..., T],
    fields: Callable[[], Sequence[tuple[str, Codec[Any]]]],
    descriptor: str = "",
    stable: bool = False,
) -> Codec[T]:
    """A parcelable: its class, its fields in their order, its name in AIDL, whether it is `@VintfStability`."""
    return _known(_Structure(kind, fields), kind, descriptor, stable)


def union(
    kind: Callable[..., T],
    fields: Callable[[], Sequence[tuple[str, Codec[Any]]]],
    descriptor: str = "",
    stable: bool = False,
) -> Codec[T]:
    """A union: as `structure`."""
    return _known(_Union(kind, fields), kind, descriptor, stable)


def holder(stable: bool) -> Codec[ParcelableHolder]:
    """A parcelable of any type, in one that is `@VintfStability` or not."""
    return _Holder(stable)


def interface(proxy: Callable[[], Callable[[Remote], T]]) -> Codec[T]:
    """A reference to an object with an interface, read as its proxy."""
    return _Interface(proxy)


def length(source: Parcel) -> Optional[int]:
    """The length of an array that the caller wants to be filled."""
    count = source.read_int()
    if count == -1:
        return None
    if not 0 <= count <= 16 << 20:
        raise HandoffError(f"bad parcel: an array of {count} items is to be filled")
    return count


def required_length(source: Parcel) -> int:
    """`length`, where there must be an array."""
    count = length(source)
    if count is None:
        raise HandoffError("bad parcel: null where an array is to be filled")
    return count
