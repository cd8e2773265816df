"""Snapshots of data, leaf by leaf, to detect later changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np


def take_snapshot(value: Any, place: str = "") -> dict[str, Any]:
    """Return every leaf by its place, as in `episodes[0].output.metadata['answer']`. Later changes do not affect it."""
    return dict(_list_leaves(value, place))


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Describe the differences, a line per place."""
    nothing = object()
    return [
        f"{place.lstrip('.')}: {_format_leaf(before, place)} became {_format_leaf(after, place)}"
        for place in dict.fromkeys([*before, *after])
        if before.get(place, nothing) != after.get(place, nothing)
    ]


def _format_leaf(leaves: Mapping[str, Any], place: str) -> str:
    return f"{leaves[place][1]:.60}" if place in leaves else "nothing"


def _list_leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    # The type is included, so that an empty list is not an empty mapping, and 1 is not True.
    if isinstance(value, np.ndarray):
        yield place, (f"{value.dtype}{value.shape}", repr(value.tolist()))
    elif attrs.has(type(value)):
        yield place, (type(value), f"a {type(value).__name__}")
        for field in attrs.fields(type(value)):
            yield from _list_leaves(getattr(value, field.name), f"{place}.{field.name}")
    elif isinstance(value, Mapping):
        yield place, (Mapping, "a mapping")
        for key, item in value.items():
            yield from _list_leaves(item, f"{place}[{key!r}]")
    elif isinstance(value, list | tuple):
        yield place, (type(value), f"a {type(value).__name__}")
        for index, item in enumerate(value):
            yield from _list_leaves(item, f"{place}[{index}]")
    else:
        # As text: NaN is unequal to itself.
        yield place, (type(value), repr(value))
