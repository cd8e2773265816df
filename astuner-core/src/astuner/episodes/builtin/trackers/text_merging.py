"""Fewer rows at the cost of exactness (`timeline_compare_level: text`).

A row whose sampled ids all appear verbatim in the prompts of a later row of the same agent is trained there. The prefix
then differs from the one the ids were sampled under, for example because a template dropped old reasoning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve

from astuner.contract.token_streams import join_ids
from astuner.episodes.builtin.trackers.path_rows import Row, Span

if TYPE_CHECKING:
    from astuner.contract.schema import Ids


def merge_by_text(rows: Sequence[Row], *, ignore_tools: bool) -> list[Row]:
    """Return rows that train the same ids, each once, with as many of the rows as possible inside later ones.

    `ignore_tools` lets conversations with different tools be one row.
    """
    hosts: list[_Host] = []
    for row in reversed(rows):
        # The nearest later row first: it differs least.
        if not any(host.take_in(row, ignore_tools) for host in reversed(hosts)):
            hosts.append(_Host(row))
    return [host.row for host in reversed(hosts)]


class _Host:
    """A row that others may be trained in."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self._ids = join_ids(row.path)
        self._bytes = self._ids.tobytes()
        self._fed_by = np.empty(len(self._ids), np.int64)
        """[n], the call that fed an id; -1 where it was sampled."""
        self._trained = np.zeros(len(self._ids), bool)
        for part in row.path:
            sampled = part.start + part.fed
            self._fed_by[part.start : sampled] = part.call.index
            self._fed_by[sampled : sampled + part.sampled] = -1
        self._mark(row.spans)

    def take_in(self, row: Row, ignore_tools: bool) -> bool:
        """Train another row here if all of it is found; return whether it was."""
        same = row.agent == self.row.agent and (ignore_tools or row.path[0].call.tools == self.row.path[0].call.tools)
        placed = self._place(row) if same else None
        if placed is None:
            return False
        self._mark(placed)
        self.row = evolve(self.row, spans=tuple(sorted((*self.row.spans, *placed), key=lambda span: span.place)))
        return True

    def _mark(self, spans: Sequence[Span]) -> None:
        for span in spans:
            self._trained[span.place : span.end] = True

    def _place(self, row: Row) -> list[Span] | None:
        shared = _count_common(join_ids(row.path), self._ids)
        placed: list[Span] = []
        before = len(self._ids)
        # From the end, like the rows: of equal answers the later one is then found after the earlier one.
        for span in reversed(row.spans):
            place = self._find_own_place(span)
            if place is None:
                # The common prefix of two rows precedes the answer, so the answer is not in it.
                place = self._find_repeated(span, min(shared, span.place), before)
            if place is None or place + span.last - span.first > before:
                return None
            placed.append(evolve(span, place=place))
            before = place
        return placed

    def _find_own_place(self, span: Span) -> int | None:
        """Return the span's exact position if its call is on this path too."""
        for part in self.row.path:
            if part.call.index == span.call.index and part.sampled >= span.last:
                return part.start + part.fed + span.first
        return None

    def _find_repeated(self, span: Span, start: int, before: int) -> int | None:
        """Return the last place from `start` on at which a later call fed the ids of a span, and they are not trained yet."""
        words = span.call.output_ids[span.first : span.last]
        width = self._ids.itemsize
        at = self._bytes.rfind(words.tobytes(), start * width, before * width)
        while at >= 0:
            place, end = at // width, at // width + len(words)
            later = bool((self._fed_by[place:end] > span.call.index).all())
            if at % width == 0 and later and not self._trained[place:end].any():
                return place
            at = self._bytes.rfind(words.tobytes(), start * width, at + len(words) * width - 1)
        return None


def _count_common(one: Ids, other: Ids) -> int:
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length
