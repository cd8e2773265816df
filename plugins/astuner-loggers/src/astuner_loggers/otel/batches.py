"""Spans in requests of a limited size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import field, frozen

from astuner_loggers.otel.encoding import EncodedSpan

USUAL_BYTES = 1_000_000
"""Small enough to arrive within the time limit on a slow line; only a span that is larger has a larger request."""


@frozen(kw_only=True, eq=False)
class Batch:
    """What one request sends."""

    spans: list[EncodedSpan] = field(factory=list)
    episodes: frozenset[str] = frozenset()
    """The ids of the episodes that have spans in it."""


def fill_batches(traces: Iterable[tuple[str, Iterable[EncodedSpan]]], most_bytes: int) -> Iterator[Batch]:
    """Yield the spans of episodes, given by id, in order, in as few requests as their sizes allow."""
    most = min(most_bytes, USUAL_BYTES)
    spans: list[EncodedSpan] = []
    episodes: set[str] = set()
    size = 0
    for episode, encoded in traces:
        for span in encoded:
            if spans and size + span.size > most:
                yield Batch(spans=spans, episodes=frozenset(episodes))
                spans, episodes, size = [], set(), 0
            spans.append(span)
            episodes.add(episode)
            size += span.size
    if spans:
        yield Batch(spans=spans, episodes=frozenset(episodes))
