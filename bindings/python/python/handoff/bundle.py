"""Android's `PersistableBundle`, which generated parcelables may have as a field."""

from __future__ import annotations

from typing import Any, Optional

from ._native import Bundle


class PersistableBundle:
    """Values of a few types, each under a name: `put_int("channel", 36)`, `get_int("channel")`. What is got is `None` if no
    value of that type has the name."""

    def __init__(self) -> None:
        self.native = Bundle()

    def _get(self, kind: str, name: str) -> Any:
        found = self.native.get(name)
        return found[1] if found is not None and found[0] == kind else None

    def put_boolean(self, name: str, value: bool) -> None:
        self.native.put("boolean", name, value)

    def get_boolean(self, name: str) -> Optional[bool]:
        return self._get("boolean", name)  # type: ignore[no-any-return]

    def put_int(self, name: str, value: int) -> None:
        self.native.put("int", name, value)

    def get_int(self, name: str) -> Optional[int]:
        return self._get("int", name)  # type: ignore[no-any-return]

    def put_long(self, name: str, value: int) -> None:
        self.native.put("long", name, value)

    def get_long(self, name: str) -> Optional[int]:
        return self._get("long", name)  # type: ignore[no-any-return]

    def put_double(self, name: str, value: float) -> None:
        self.native.put("double", name, value)

    def get_double(self, name: str) -> Optional[float]:
        return self._get("double", name)  # type: ignore[no-any-return]

    def put_string(self, name: str, value: str) -> None:
        self.native.put("string", name, value)

    def get_string(self, name: str) -> Optional[str]:
        return self._get("string", name)  # type: ignore[no-any-return]

    def put_boolean_array(self, name: str, value: list[bool]) -> None:
        self.native.put("boolean_array", name, value)

    def get_boolean_array(self, name: str) -> Optional[list[bool]]:
        return self._get("boolean_array", name)  # type: ignore[no-any-return]

    def put_int_array(self, name: str, value: list[int]) -> None:
        self.native.put("int_array", name, value)

    def get_int_array(self, name: str) -> Optional[list[int]]:
        return self._get("int_array", name)  # type: ignore[no-any-return]

    def put_long_array(self, name: str, value: list[int]) -> None:
        self.native.put("long_array", name, value)

    def get_long_array(self, name: str) -> Optional[list[int]]:
        return self._get("long_array", name)  # type: ignore[no-any-return]

    def put_double_array(self, name: str, value: list[float]) -> None:
        self.native.put("double_array", name, value)

    def get_double_array(self, name: str) -> Optional[list[float]]:
        return self._get("double_array", name)  # type: ignore[no-any-return]

    def put_string_array(self, name: str, value: list[str]) -> None:
        self.native.put("string_array", name, value)

    def get_string_array(self, name: str) -> Optional[list[str]]:
        return self._get("string_array", name)  # type: ignore[no-any-return]

    def put_bundle(self, name: str, value: PersistableBundle) -> None:
        self.native.put("bundle", name, value.native)

    def get_bundle(self, name: str) -> Optional[PersistableBundle]:
        found = self._get("bundle", name)
        return None if found is None else bundle_of(found)

    def remove(self, name: str) -> bool:
        """Whether a value had the name."""
        return self.native.remove(name)

    def names(self) -> list[str]:
        return self.native.names()

    def __len__(self) -> int:
        return len(self.native)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PersistableBundle) and self.native == other.native

    __hash__ = None  # type: ignore[assignment]


def bundle_of(native: Bundle) -> PersistableBundle:
    """The bundle that came in a parcel."""
    bundle = PersistableBundle()
    bundle.native = native
    return bundle
