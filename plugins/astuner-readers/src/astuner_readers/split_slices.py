"""Parts of splits, as in `train[:1000]+test`, of streamed data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from attrs import frozen

_PART = re.compile(r"\s*([\w.]+)\s*(?:\[\s*(\d*)\s*:\s*(\d*)\s*\]\s*)?")


@frozen
class SplitPart:
    """Some rows of a split, from the first up to but excluding the last; None is its end."""

    name: str
    first: int = 0
    last: int | None = None

    @property
    def length(self) -> int | None:
        """The maximum number of rows."""
        return None if self.last is None else max(self.last - self.first, 0)


def split_parts(text: str) -> list[SplitPart] | None:
    """Return the parts that a text names; None if it cannot be streamed, counting from the end or in percent."""
    found = []
    for part in text.split("+"):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        name, first, last = match.groups()
        found.append(SplitPart(name, int(first or 0), int(last) if last else None))
    return found


class PartsOfStreams:
    """The rows of several parts, one after the other; each iteration starts from the beginning."""

    def __init__(self, parts: Iterable[tuple[SplitPart, Any]]) -> None:
        """Each part comes with the stream of its whole split."""
        self._parts = tuple(parts)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows; those before a part are skipped at the source, and those after it not fetched."""
        return chain.from_iterable(
            islice(stream.skip(part.first) if part.first else stream, part.length) for part, stream in self._parts
        )
