"""Converts values of any type to plain ones: JSON values whose text is valid Unicode, and finite numbers.

What people return from workflows, judges, environments and readers are NumPy scalars, dates, paths, data classes, text with half
an emoji in it. Whatever a value does when it is looked at, no function here raises.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Real
from os import PathLike, fspath
from typing import Any, TypeGuard, TypeVar
from uuid import UUID

from attrs import define, field, frozen

T = TypeVar("T")

# Made once: `json.dumps` makes an encoder per call.
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode

LARGEST_NUMBER = 1e300
"""Sums of up to 100 million numbers of this size are finite, and so are their means."""
LARGEST_REWARD = 1e12
"""The size that a reward may have. Trainers compute in 32-bit floats, up to 3.4e38: of a larger advantage, the squares of the
gradients would not be finite."""
DEEPEST = 64
"""Levels of containers in one value. Encoders and decoders of JSON recurse, and Python allows about 1,000 calls."""
DEEPEST_RECORD = 100
"""Levels in what is stored: such a value, and what is around it."""
MOST_VALUES = 5_000_000
"""Values in one value. One list in another that holds it twice, and so on, is 2^N values."""
LONGEST_INTEGER = 14_000
"""Bits: Python writes and reads integers of up to 4,300 digits."""


@frozen
class Plain:
    """A value as plain JSON, and what was lost."""

    value: Any
    mended: bool
    """Whether some text was not valid Unicode; each lone surrogate became U+FFFD."""
    replaced: str | None
    """What the first value was that has no form in JSON, and became text."""


def make_plain(value: Any, *, deepest: int = DEEPEST) -> Plain:
    """Convert a value: containers and records level by level, single values to the JSON value that stands for them.

    Sets become sorted lists, and data classes, attrs classes and pydantic models become objects. Numbers that are not finite, and
    anything else that JSON does not have, become text.
    """
    walk = _Walk(deepest)
    found = walk.convert(value, 0)
    return Plain(found, walk.mended, walk.replaced)


def mend_text(text: str) -> str:
    """Return text that UTF-8 can encode: surrogate pairs are joined, and each lone surrogate becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_text(value: Any) -> str:
    """Return the text of any value, as `str` does; its type if it has none."""
    if type(value) is str:
        return mend_text(value)
    return mend_text(_try(lambda: str.__str__(str(value)), f"<{type(value).__qualname__}>"))


def show_value(value: Any, longest: int = 200) -> str:
    """Return the beginning of a value's `repr` for a message; its type if it has none."""
    return mend_text(_try(lambda: str.__str__(repr(value)), f"<{type(value).__qualname__}>")[:longest])


def read_number(value: Any, *, largest: float = LARGEST_NUMBER) -> float | None:
    """Return a real number, a truth value, or the only item of an array, as a float.

    None for anything else, and for a number that is not finite or whose size is over `largest`.
    """
    item = _take_item(value)
    number = _try(lambda: float(item) if isinstance(item, Real | Decimal) else math.nan, math.nan)
    return number if math.isfinite(number) and abs(number) <= largest else None


def has_type(value: object, kind: type[T]) -> TypeGuard[T]:
    """Whether a value is of a class, or of one derived from it; unlike `isinstance`, this does not ask the value."""
    return issubclass(type(value), kind)


def read_bool(value: Any) -> bool | None:
    """Return a truth value of Python or NumPy; None for anything else."""
    item = _take_item(value)
    return item if isinstance(item, bool) else None


def mend_message(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object of JSON values, mended as `mend_texts` does."""
    return mend_texts(value)


def mend_texts(value: T) -> T:
    """Return JSON values whose text is valid Unicode, keys included; the same object if nothing had to be mended."""
    try:
        _ENCODE(value).encode()
    except (TypeError, ValueError, RecursionError):
        found: T = make_plain(value, deepest=DEEPEST_RECORD).value
        return found
    return value


def _take_item(value: Any) -> Any:
    """Return the only item of a NumPy scalar, an array or a tensor; other values as they are."""
    if issubclass(type(value), float | int | str) or not callable(_try(lambda: value.item, None)):
        return value
    return _try(lambda: value.item(), None)


def _try(ask: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return ask()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - methods of foreign objects may raise anything, SystemExit too
        return otherwise


@define(eq=False)
class _Walk:
    """One pass over a value."""

    deepest: int
    mended: bool = False
    replaced: str | None = None
    _parents: set[int] = field(factory=set)
    _left: int = MOST_VALUES

    def convert(self, value: Any, depth: int) -> Any:
        """Return the value as JSON values."""
        self._left -= 1
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return self._mend(value)
        if kind is int and value.bit_length() <= LONGEST_INTEGER:
            return value
        if kind is float and math.isfinite(value):
            return value
        if depth >= self.deepest or self._left <= 0 or id(value) in self._parents:
            why = "itself" if id(value) in self._parents else "too many values" if self._left <= 0 else f"{self.deepest} levels"
            self.replaced = self.replaced or f"a {kind.__qualname__} inside {why}"
            return f"<{kind.__qualname__} inside {why}>"
        self._parents.add(id(value))
        try:
            return self._convert_other(value, depth)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - methods of foreign objects may raise anything, SystemExit too
            return self._replace(value)
        finally:
            self._parents.discard(id(value))

    def _convert_other(self, value: Any, depth: int) -> Any:
        match value:
            case Enum():
                return self.convert(value.value, depth + 1)
            case str():
                return self._mend(str.__str__(value))
            case int() if value.bit_length() <= LONGEST_INTEGER:
                return int.__int__(value)
            case float() if math.isfinite(value):
                return float.__float__(value)
            case int() | float() | bytes() | bytearray() | memoryview() | type():
                return self._replace(value)
            case Mapping():
                return {self._convert_key(key): self.convert(one, depth + 1) for key, one in list(value.items())}
            case Set():
                return sorted((self.convert(one, depth + 1) for one in list(value)), key=_sort_key)
            case Sequence():
                return [self.convert(one, depth + 1) for one in list(value)]
            case date() | time():
                return value.isoformat()
            case Decimal() | Fraction() | timedelta() | UUID():
                return str(value)
            case PathLike():
                return self.convert(fspath(value), depth + 1)
        return self._convert_record(value, depth)

    def _convert_record(self, value: Any, depth: int) -> Any:
        """Convert what is known by its methods and attributes: the libraries are not imported."""
        kind = type(value)
        if is_dataclass(value):
            return self.convert({one.name: getattr(value, one.name) for one in fields(value)}, depth)
        if hasattr(kind, "__attrs_attrs__"):
            return self.convert({one.name: getattr(value, one.name) for one in kind.__attrs_attrs__}, depth)
        if hasattr(kind, "model_dump"):
            return self.convert(dict(value.model_dump()), depth)
        if hasattr(kind, "tolist") and hasattr(value, "dtype"):
            # Of times NumPy gives nanoseconds as integers.
            times = getattr(value.dtype, "kind", "") in ("m", "M")
            found = value.astype(str).tolist() if times else value.tolist()
            if not isinstance(found, kind):
                return self.convert(found, depth)
        return self._replace(value)

    def _convert_key(self, key: Any) -> str:
        """Return a key as text, in JSON's spelling where it has one."""
        found = key if type(key) is str else self.convert(key, self.deepest - 1)
        if isinstance(found, str):
            return self._mend(found)
        return json.dumps(found) if found is None or isinstance(found, bool | int | float) else self._replace(key)

    def _replace(self, value: Any) -> str:
        """Return the text that takes the place of a value that JSON does not have."""
        kind = type(value)
        if self.replaced is None:
            article = "an" if kind.__qualname__[0] in "aeiouAEIOU" else "a"
            self.replaced = _try(lambda: f"{value:g}", "nan") if issubclass(kind, float) else f"{article} {kind.__qualname__}"
        if issubclass(kind, bytes | bytearray | memoryview):
            return str(_try(lambda: bytes(value).decode(errors="replace"), f"<{kind.__qualname__}>"))
        if issubclass(kind, int):
            return hex(value)
        return self._mend(_try(lambda: str.__str__(str(value)), f"<{kind.__qualname__}>"))

    def _mend(self, text: str) -> str:
        mended = mend_text(text)
        self.mended = self.mended or mended is not text
        return mended


def _sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
