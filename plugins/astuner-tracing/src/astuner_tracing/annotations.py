"""Feedback on an answer: read from a span, an event or a log record, and combined into one score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from attrs import evolve

from astuner_tracing.attributes import get_at, get_first, get_text
from astuner_tracing.records import Annotation, Annotator, Span

EVALUATION = "gen_ai.evaluation.result"
"""OpenTelemetry's event for the evaluation of an answer; the collector writes feedback in this form too."""
CORRECTION = "astuner.feedback.correction"
ANNOTATOR = "astuner.feedback.annotator"
USER = "astuner.feedback.user"
CONVERSATION = "gen_ai.conversation.id"

_FEEDBACK_EVENTS = ("feedback", "user_feedback", "user.feedback", "annotation")
_FEEDBACK_ATTRIBUTES = ("feedback", "user_feedback")
_FEEDBACK_KEYS = ("score", "thumbs", "label", "comment", "correction", "rating")
_GOOD = frozenset(
    {"thumbs_up", "thumbsup", "up", "like", "liked", "good", "correct", "positive", "yes", "accepted", "pass", "passed"}
)
_BAD = frozenset(
    {"thumbs_down", "thumbsdown", "down", "dislike", "disliked", "bad", "incorrect", "wrong", "negative", "no", "fail", "failed"}
)


def parse_annotation(
    attributes: Mapping[str, Any], *, trace_id: str | None = None, span_id: str | None = None, time_ns: int = 0
) -> Annotation | None:
    """Read an event `gen_ai.evaluation.result`, or feedback under plainer keys; None if it is empty.

    OpenTelemetry's event is an automatic judgement unless it says otherwise. A `rating` is a label, since its
    scale is unknown.
    """
    rating = to_number(get_first(attributes, "rating"))
    formal = get_at(attributes, "gen_ai.evaluation.name") is not None
    said, thumbs = get_text(attributes, ANNOTATOR, "annotator_kind", "annotator"), get_text(attributes, "thumbs")
    score = to_number(get_first(attributes, "gen_ai.evaluation.score.value", "score", "value"))
    made = Annotation(
        trace_id=trace_id,
        span_id=span_id,
        conversation_id=get_text(attributes, CONVERSATION, "session.id", "conversation_id"),
        name=get_text(attributes, "gen_ai.evaluation.name", "name") or "user_feedback",
        annotator=parse_annotator(said, otherwise="llm" if formal else "human"),
        user=get_text(attributes, USER, "user", "user_id") or "",
        # A thumb is a judgement, whatever its label.
        score=_score_label(thumbs) if score is None else score,
        label=get_text(attributes, "gen_ai.evaluation.score.label", "label")
        or thumbs
        or (f"rating {rating:g}" if rating is not None else None),
        comment=get_text(attributes, "gen_ai.evaluation.explanation", "comment", "explanation"),
        correction=get_text(attributes, CORRECTION, "correction"),
        time_ns=time_ns,
    )
    said_something = made.score is not None or made.label or made.comment or made.correction
    return add_score(made) if said_something else None


def find_annotations(span: Span) -> Iterator[Annotation]:
    """Yield the feedback in a span: events, and attributes `feedback.score`, `feedback.thumbs` and so on."""
    for event in span.events:
        if event["name"] == EVALUATION or event["name"] in _FEEDBACK_EVENTS:
            found = parse_annotation(event["attributes"], trace_id=span.trace_id, span_id=span.span_id, time_ns=span.end_ns)
            if found is not None:
                yield found
    for prefix in _FEEDBACK_ATTRIBUTES:
        below = {key: get_at(span.attributes, f"{prefix}.{key}") for key in _FEEDBACK_KEYS}
        said = {key: value for key, value in below.items() if value is not None}
        found = parse_annotation(said, trace_id=span.trace_id, span_id=span.span_id, time_ns=span.end_ns) if said else None
        if found is not None:
            yield found


def parse_annotator(value: Any, otherwise: Annotator = "human") -> Annotator:
    """Return who judged: a person, an LLM or a program."""
    kind = str(value or "").lower()
    return cast("Annotator", kind) if kind in ("human", "llm", "code") else otherwise


def to_number(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    try:
        made = float(value)
    except (TypeError, ValueError):
        return None
    return made if math.isfinite(made) else None


def add_score(annotation: Annotation) -> Annotation:
    """Give an annotation without a score one from its label: 1 for `thumbs_up` and the like, 0 for the opposite."""
    return annotation if annotation.score is not None else evolve(annotation, score=_score_label(annotation.label))


def _score_label(label: str | None) -> float | None:
    plain = (label or "").strip().lower().replace(" ", "_").replace("-", "_")
    return 1.0 if plain in _GOOD else 0.0 if plain in _BAD else None


def merge_annotations(annotations: Sequence[Annotation]) -> list[Annotation]:
    """Return the current annotations, in order of time: per user and name, the last score with its label, comment and correction.

    Anonymous users are never merged, except for a record that was read twice.
    """
    counted: dict[object, Annotation] = {}
    for annotation in sorted(annotations, key=lambda one: one.time_ns):
        key = (annotation.name, annotation.annotator, annotation.user) if annotation.user else annotation
        earlier = counted.pop(key, None)
        counted[key] = annotation if earlier is None else _merge(earlier, annotation)
    return list(counted.values())


def _merge(earlier: Annotation, later: Annotation) -> Annotation:
    """Combine two annotations of a user: a comment after a thumb retracts nothing."""
    judged = later if later.score is not None or later.label else earlier
    return evolve(
        later,
        score=judged.score,
        label=judged.label,
        comment=later.comment or earlier.comment,
        correction=later.correction or earlier.correction,
    )


def mean_score(annotations: Sequence[Annotation]) -> float | None:
    """Return the mean of the scores; None if there are none."""
    scores = [annotation.score for annotation in annotations if annotation.score is not None]
    return sum(scores) / len(scores) if scores else None


def judge_answer(annotations: Sequence[Annotation]) -> float | None:
    """Return how right an answer is, from 0 to 1 or on the scale of the scores; None if nothing says so.

    The label of an evaluation, such as `fail`, says more than its score, whose scale is unknown. A person's score is from 0 to 1.
    """
    programs = [one for one in annotations if one.annotator != "human"]
    labelled = [score for one in programs if (score := _score_label(one.label)) is not None]
    people = [one.score for one in annotations if one.annotator == "human" and one.score is not None]
    scores = [*people, *(labelled or [one.score for one in programs if one.score is not None])]
    return sum(scores) / len(scores) if scores else None
