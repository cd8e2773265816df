"""Counts of everything that was read, and of what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from attrs import define, field

_NAMED = 5
"""Number of places listed for each reason."""


@define(eq=False)
class Tally:
    """Counts of one import."""

    sources: dict[str, Counter[str]] = field(factory=dict)
    """By source: `spans`, `annotations`, `broken`."""
    traces: int = 0
    turns: int = 0
    broken: Counter[str] = field(factory=Counter)
    """Lines, rows and spans that could not be read, by reason."""
    places: dict[str, list[str]] = field(factory=dict)
    """The first places of each reason."""
    repeated_spans: int = 0
    """Repeated spans, as exporters send them after a lost reply."""
    left_out: Counter[str] = field(factory=Counter)
    """Turns that are not tasks, by reason."""
    filtered: dict[str, int] = field(factory=dict)
    """Tasks that each filter left out."""
    unjudged: Counter[str] = field(factory=Counter)
    """Tasks on which an LLM gave no verdict, by reason."""
    annotations: int = 0
    """Annotations that were found."""
    unmatched_annotations: int = 0
    """Annotations of traces, spans or conversations that were not read."""
    with_feedback: int = 0
    """Tasks with feedback."""
    without_answer: int = 0
    """Tasks without a right answer: they can be tried, but not compared."""
    masked: int = 0
    """Tasks in which secrets, such as API keys, were replaced."""
    train: int = 0
    validation: int = 0

    def note_broken(self, source: str, place: str, reason: str) -> None:
        """Count an unreadable item."""
        self.sources.setdefault(source, Counter())["broken"] += 1
        self.broken[reason] += 1
        named = self.places.setdefault(reason, [])
        if len(named) < _NAMED:
            named.append(place)

    @property
    def spans(self) -> int:
        """The number of spans read."""
        return sum(counts["spans"] for counts in self.sources.values())

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the rows of a table: name and value."""
        for name, counts in self.sources.items():
            yield "source", f"{name} ({', '.join(f'{count} {what}' for what, count in counts.items()) or 'nothing'})"
        yield "traces", str(self.traces)
        yield "turns", str(self.turns)
        if self.repeated_spans:
            yield "repeated spans", str(self.repeated_spans)
        for reason, count in self.broken.items():
            more = ", …" if count > len(self.places[reason]) else ""
            yield "broken", f"{count}: {reason} ({', '.join(self.places[reason])}{more})"
        for reason, count in self.left_out.items():
            yield "left out", f"{count}: {reason}"
        for name, count in self.filtered.items():
            yield f"filter {name}", f"{count} left out"
        for reason, count in self.unjudged.items():
            yield "unjudged", f"{count}: {reason}"
        if self.annotations:
            unmatched = f", {self.unmatched_annotations} of nothing that was read" if self.unmatched_annotations else ""
            yield "feedback", f"{self.annotations} annotations{unmatched}; {self.with_feedback} tasks have some"
        if self.without_answer:
            yield "answers", f"{self.without_answer} tasks have no right answer"
        if self.masked:
            yield "secrets", f"{self.masked} tasks had some, such as API keys, which are replaced by <redacted>"
        yield "tasks", f"{self.train} for training, {self.validation} for validation"

    def sentence(self) -> str:
        """Return everything in one line, for a notice."""
        return "; ".join(f"{name}: {value}" for name, value in self.rows())

    def as_json(self) -> dict[str, Any]:
        """Return the counts as a JSON document."""
        return {
            "sources": {name: dict(counts) for name, counts in self.sources.items()},
            "spans": self.spans,
            "traces": self.traces,
            "turns": self.turns,
            "repeated_spans": self.repeated_spans,
            "broken": [
                {"reason": reason, "count": count, "places": self.places[reason]} for reason, count in self.broken.items()
            ],
            "left_out": dict(self.left_out),
            "filtered": dict(self.filtered),
            "unjudged": dict(self.unjudged),
            "annotations": self.annotations,
            "unmatched_annotations": self.unmatched_annotations,
            "tasks_with_feedback": self.with_feedback,
            "tasks_without_answer": self.without_answer,
            "tasks_with_secrets": self.masked,
            "tasks": {"train": self.train, "validation": self.validation},
        }
