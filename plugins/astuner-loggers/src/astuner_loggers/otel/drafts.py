"""Spans before they are encoded: plain data, from which long texts can still be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from astuner_loggers.otel.messages import Document

Plain = str | bool | int | float | Sequence[str]


@frozen(kw_only=True)
class EventDraft:
    """Something that happened at the end of a span."""

    name: str
    attributes: Mapping[str, Plain]


@frozen(kw_only=True)
class SpanDraft:
    """One span of a trace."""

    key: str
    """Unique in the trace; empty for the root."""
    name: str
    start_s: float
    """From the start of the episode."""
    end_s: float
    is_client: bool = False
    """Whether it is a request to a model, as the kind `CLIENT` says; all others are `INTERNAL`."""
    attributes: Mapping[str, Plain]
    documents: Mapping[str, Document] = field(factory=dict)
    """Attributes that are sent as JSON; the only ones that may be large."""
    events: tuple[EventDraft, ...] = ()
    error: str | None = None
    """What went wrong; None is the status `OK`."""


@frozen(kw_only=True)
class TraceDraft:
    """The spans of an episode: children first, the root last, whose arrival makes a trace complete."""

    episode_id: str
    duration_s: float
    """From the start of the first span to the end of the last."""
    spans: tuple[SpanDraft, ...]
