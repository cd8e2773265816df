"""Parts of splits, as in `train[:1000]+test`, of data that is streamed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from attrs import frozen

_PART = re.compile(r"\s*([\w.]+)\s*(?:\[\s*(\d*)\s*:\s*(\d*)\s*\]\s*)?")


@frozen
class SplitPart:
    """Some rows of a split, from the first to before the last; None is its end."""

    name: str
    first: int = 0
    last: int | None = None

    @property
    def length(self) -> int | None:
        """How many rows there are at most."""
        return None if self.last is None else max(self.last - self.first, 0)


def split_parts(text: str) -> list[SplitPart] | None:
    """Return the parts that a text names; None for one that cannot be streamed, since it counts from the end or in percent."""
    found = []
    for part in text.split("+"):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        name, first, last = match.groups()
        found.append(SplitPart(name, int(first or 0), int(last) if last else None))
    return found


class PartsOfStreams:
    """The rows of several parts, one after the other, from the beginning each time."""

    def __init__(self, parts: Iterable[tuple[SplitPart, Any]]) -> None:
        """Each part comes with the stream of its whole split."""
        self._parts = tuple(parts)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows; what comes before a part is skipped where it lies, and what comes after it is not fetched."""
        return chain.from_iterable(
            islice(stream.skip(part.first) if part.first else stream, part.length) for part, stream in self._parts
        )
