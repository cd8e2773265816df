"""What a source of traces yields: spans, annotations, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

Annotator = Literal["human", "llm", "code"]


@frozen(kw_only=True)
class Span:
    """One span, whatever wrote it down."""

    source: str
    """The source, as the user named it."""
    trace_id: str
    """Lower-case hex, as is `span_id`, where the source has ids of OpenTelemetry."""
    span_id: str
    parent_id: str | None = None
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    attributes: Mapping[str, Any] = field(factory=dict)
    """As the source has them: dotted keys, nested objects, or both; read them with `astuner_readers.tracing.attributes`."""
    events: tuple[Mapping[str, Any], ...] = ()
    """Each with `name` and `attributes`."""
    failed: bool = False
    """Whether its status is an error."""


@frozen(kw_only=True)
class Annotation:
    """Feedback on an answer, by a person or a program. Names a span, a trace or a conversation, the narrowest it knows."""

    trace_id: str | None = None
    span_id: str | None = None
    conversation_id: str | None = None
    name: str = "user_feedback"
    annotator: Annotator = "human"
    user: str = ""
    """Who said it, where that is known: of what one user says under one name, the last word counts. Empty if unknown."""
    score: float | None = None
    label: str | None = None
    comment: str | None = None
    correction: str | None = None
    """What the answer should have been."""
    time_ns: int = 0

    @property
    def says_more(self) -> bool:
        """Whether it says anything besides a correction."""
        return self.score is not None or bool(self.label or self.comment)


@frozen(kw_only=True)
class BadRecord:
    """A line, row or span that could not be read."""

    place: str
    """For people, as in `traces.jsonl:17`."""
    reason: str


ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What values of an unforeseen shape raise; one of them is counted as broken, and the others are read."""

Record = Span | Annotation | BadRecord
