"""A server, with all that an episode becomes there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from attrs import define

from astuner_loggers.otel.batches import fill_batches
from astuner_loggers.otel.episode_trace import TraceFacts, draft_trace
from astuner_loggers.otel.otlp import SpanExport
from astuner_loggers.otel.report import Report

if TYPE_CHECKING:
    from astuner_loggers.otel.encoding import EncodedSpan, SpanEncoder

_APART_NS = 1_000_000
"""Between the ends of the episodes of a step, so that lists have them in their order."""


@define(eq=False)
class Destination:
    """Sends reports to one server. Used by one thread, but for `is_failing` and `abort`."""

    export: SpanExport
    encoder: SpanEncoder
    facts: TraceFacts
    clean: Callable[[str], str]
    most_bytes: int

    @property
    def address(self) -> str:
        """Where it is."""
        return self.export.address

    @property
    def is_failing(self) -> bool:
        """Whether it did not accept the last request."""
        return self.export.is_failing

    def deliver(self, report: Report) -> Iterator[tuple[frozenset[str], str | None]]:
        """Send a report; after each request, yield the ids of its episodes, and why they were not accepted."""
        broken: dict[str, str] = {}
        for batch in fill_batches(self._encode(report, broken), self.most_bytes):
            yield batch.episodes, self.export.send([one.span for one in batch.spans])
        for episode, problem in broken.items():
            yield frozenset({episode}), problem

    def abort(self) -> None:
        """End what is being sent, as far as possible."""
        self.export.close()

    def _encode(self, report: Report, broken: dict[str, str]) -> Iterable[tuple[str, Iterable[EncodedSpan]]]:
        """Yield the spans of each episode; note why one cannot be drawn up."""
        for place, chosen in enumerate(report.episodes):
            identity = chosen.episode.id
            try:
                trace = draft_trace(chosen, self.facts, self.clean, self.most_bytes)
            except Exception as error:  # noqa: BLE001 - messages are whatever frameworks send; such an episode is counted as lost
                broken[identity] = f"episode {identity} cannot be written as a trace: {type(error).__name__}: {error}"
            else:
                yield identity, self.encoder.encode(trace, report.ended_ns + place * _APART_NS)
