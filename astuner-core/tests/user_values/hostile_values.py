"""Values that a workflow or a judge may return, as bad as they come."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, UserDict, UserString, deque, namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
from attrs import frozen
from hypothesis import strategies as st
from pydantic import BaseModel

from astuner.contract.plain_values import show_value


class Colour(Enum):
    RED = "red\ud800"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


@dataclass
class Point:
    x: Any
    y: Any = 2


@frozen
class Box:
    content: Any


class Model(BaseModel):
    name: str = "m"
    content: Any = None


Pair = namedtuple("Pair", "left right")


class Raises:
    """Whatever is asked of it."""

    def __init__(self, error: type[BaseException] = RuntimeError) -> None:
        self.__dict__["error"] = error

    def _raise(self, *args: Any) -> Any:
        raise self.__dict__["error"]("no")

    __str__ = __repr__ = __float__ = __bool__ = __iter__ = __len__ = __hash__ = __eq__ = __index__ = __fspath__ = _raise  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise self.__dict__["error"](name)


class RaisingMapping(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)

    def __iter__(self) -> Any:
        raise SystemExit(3)

    def __len__(self) -> int:
        return 2


class RaisingSequence(Sequence[Any]):
    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError(key)

    def __len__(self) -> int:
        return 2


class RaisingFloat(float):
    def __float__(self) -> float:
        raise RuntimeError("no float")


class RaisingClass:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


def _make_circle() -> list[Any]:
    circle: list[Any] = [1]
    circle += [circle, {"again": circle}]
    return circle


def _nest(levels: int) -> Any:
    nested: Any = 1
    for _ in range(levels):
        nested = [nested]
    return nested


def _double(levels: int) -> Any:
    doubled: Any = 1
    for _ in range(levels):
        doubled = [doubled, doubled]
    return doubled


SINGLE: list[Any] = [
    Colour.RED,
    Level.HIGH,
    Word.YES,
    Raises(),
    Raises(SystemExit),
    Raises(asyncio.CancelledError),
    RaisingMapping(),
    RaisingSequence(),
    RaisingFloat(1),
    RaisingClass(),
    Raises,
    print,
    lambda: None,
    object(),
    NotImplemented,
    ...,
    10**5000,
    -(10**400),
    2**64,
    1e308,
    -1e308,
    5e-324,
    math.nan,
    math.inf,
    -0.0,
    1j,
    Decimal("NaN"),
    Decimal("1.5"),
    Fraction(1, 3),
    date(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=UTC),
    timedelta(days=1),
    UUID(int=1),
    Path("a\udc80b"),
    b"\xff\xfe",
    bytearray(b"x"),
    memoryview(b"x"),
    range(3),
    {1, "a", None},
    frozenset({(1, 2)}),
    deque([1]),
    UserString("x\ud800"),
    MappingProxyType({"a": 1}),
    OrderedDict(a=1),
    UserDict(a="\udfff"),
    Point(1),
    Box(Point("\ud83d")),
    Model(content={1, 2}),
    Pair(1, 2),
    ValueError("bad \ud83d"),
    np.bool_(True),
    np.float16(0.5),
    np.float32("nan"),
    np.float64(0.25),
    np.longdouble(1),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.complex64(1j),
    np.str_("x\ud800"),
    np.bytes_(b"\xff"),
    np.datetime64("2026-01-01T00:00:00.000000001"),
    np.timedelta64(3, "D"),
    np.array(1.5),
    np.array([1.0, math.inf]),
    np.zeros((2, 0)),
    np.array([{1}, "\ud800"], dtype=object),
    np.ma.masked,
    np.void(b"abc"),
    _make_circle(),
    _nest(100_000),
    _double(12),
    {"x" * 100: _nest(101)},
]
"""Each is also met inside of the containers below."""

KEYS = st.one_of(
    st.text(max_size=5),
    st.text(st.characters(categories=["Cs", "L"]), max_size=3),
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=3),
    st.tuples(st.integers(), st.text(max_size=2)),
    st.sampled_from(
        [Colour.RED, Level.HIGH, np.int64(3), np.float32(0.5), date(2026, 1, 1), Path("p"), print, np.str_("k\ud800")]
    ),
)
TEXTS = st.text(max_size=20) | st.text(st.characters(categories=["Cs", "L", "So"]), max_size=8)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    TEXTS,
    st.binary(max_size=8),
    st.integers(0, len(SINGLE) - 1).map(lambda place: SINGLE[place]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        inner.map(Point),
        inner.map(Box),
        inner.map(lambda content: Model.model_construct(content=content)),
        st.lists(st.integers() | TEXTS, max_size=4).map(set),
        st.lists(inner, max_size=3).map(deque),
    ),
    max_leaves=12,
)
NUMBERS = st.floats() | st.integers() | st.booleans() | LEAVES


class Given:
    """A value for hypothesis, which shows its examples and so must not meet the value itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return show_value(self.value, 2000)
