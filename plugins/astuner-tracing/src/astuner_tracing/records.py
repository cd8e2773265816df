"""The records of a source of traces: spans, annotations, and unreadable items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

Annotator = Literal["human", "llm", "code"]


@frozen(kw_only=True)
class Span:
    """One span, from any source."""

    source: str
    """The source, as the user named it."""
    trace_id: str
    """Lower-case hex, like `span_id`, if the source has OpenTelemetry ids."""
    span_id: str
    parent_id: str | None = None
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    attributes: Mapping[str, Any] = field(factory=dict)
    """As in the source: dotted keys, nested objects, or both; read them with `astuner_tracing.attributes`."""
    events: tuple[Mapping[str, Any], ...] = ()
    """Each with `name` and `attributes`."""
    failed: bool = False
    """Whether its status is an error."""


@frozen(kw_only=True)
class Annotation:
    """Feedback on an answer, by a person or a program. Names a span, a trace or a conversation, the narrowest known."""

    trace_id: str | None = None
    span_id: str | None = None
    conversation_id: str | None = None
    name: str = "user_feedback"
    annotator: Annotator = "human"
    user: str = ""
    """Its author, empty if unknown: of one user's annotations with one name, the last counts."""
    score: float | None = None
    label: str | None = None
    comment: str | None = None
    correction: str | None = None
    """The answer as it should have been."""
    time_ns: int = 0
    counted: bool = True
    """Whether the options select it. One that they do not is no feedback, but a bad one still makes no answer right."""

    @property
    def says_more(self) -> bool:
        """Whether it holds anything besides a correction."""
        return self.score is not None or bool(self.label or self.comment)


@frozen(kw_only=True)
class BadRecord:
    """A line, row or span that could not be read."""

    place: str
    """For people, as in `traces.jsonl:17`."""
    reason: str


ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors from values of an unexpected shape; the item is counted as broken, and the others are read."""

Record = Span | Annotation | BadRecord
