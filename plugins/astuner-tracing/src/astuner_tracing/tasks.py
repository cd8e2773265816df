"""From a turn and its feedback to a task, and to a row of a data set."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from attrs import evolve, field, frozen

from astuner.shared.tabular import make_content_id
from astuner_tracing.annotations import judge_answer, mean_score, merge_annotations
from astuner_tracing.records import Annotation
from astuner_tracing.turns import Turn

_ENDS = " \t.?!;:,。？！；：，…"


@frozen(kw_only=True)
class Candidate:
    """Becomes a task unless a filter drops it."""

    query: str
    init_messages: list[Any] = field(factory=list)
    """System prompt and earlier turns in OpenAI's form, without the query."""
    answer: str | None = None
    """As it was recorded."""
    reference: str | None = None
    """The best known answer: a user's correction, else the recorded one unless it was disliked."""
    reward: float | None = None
    """The mean score of the answer's feedback."""
    labels: list[str] = field(factory=list)
    feedback: list[Any] = field(factory=list)
    tools: list[str] = field(factory=list)
    agent: str | None = None
    model: str | None = None
    source: str
    trace_id: str
    span_id: str
    members: list[str] = field(factory=list)
    time_ns: int
    conversation_id: str | None = None
    disliked: bool = False
    """Whether the mean score is below that of a right answer."""

    @property
    def conversation(self) -> str:
        """The identity of its conversation: the id, or else the first question, with which each of its traces begins."""
        return self.conversation_id or f"begun with {self.opening}"

    @property
    def opening(self) -> str:
        """A hash of the conversation's first question, as far as this turn shows it."""
        before = (str(message["content"]) for message in self.init_messages if message["role"] == "user")
        return _hash(normalise(next(before, self.query)))

    @property
    def standing(self) -> int:
        """Its rank among duplicates, the best first: those with a right answer; then liked, unrated, disliked."""
        return (self.reference is None) * 3 + (2 if self.disliked else 1 if self.reward is None else 0)

    @property
    def likeness(self) -> str:
        """The normalised question with its earlier turns, for comparing duplicates."""
        turns = (message for message in self.init_messages if message["role"] not in ("system", "developer"))
        before = (f"{message['role']}: {normalise(str(message['content']))}" for message in turns)
        return "\n".join([*before, normalise(self.query)])

    @property
    def key(self) -> str:
        """A hash of `likeness`."""
        return _hash(self.likeness)

    def row(self, task_id: str) -> dict[str, Any]:
        """Return the row of a data set, as the reader `dataset_file` reads it."""
        trace = {
            "source": self.source,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "time": _iso(self.time_ns),
            "agent": self.agent,
            "model": self.model,
        }
        metadata = {
            "answer": self.reference,
            "rejected_answer": self.answer if self.answer != self.reference else None,
            "reward": self.reward,
            "feedback": self.feedback,
            "tools": self.tools,
            "conversation_id": self.conversation_id,
            "trace": {name: value for name, value in trace.items() if value is not None},
        }
        return {
            "task_id": task_id,
            "main_query": self.query,
            "init_messages": self.init_messages,
            "metadata": {name: value for name, value in metadata.items() if value not in (None, [])},
        }


def build_candidate(turn: Turn, *, keeps_system_prompt: bool) -> Candidate:
    """Return the candidate of a turn, without feedback."""
    before = [
        message.as_openai() for message in turn.before if keeps_system_prompt or message.role not in ("system", "developer")
    ]
    return Candidate(
        query=turn.query,
        init_messages=before,
        answer=turn.answer,
        reference=turn.answer,
        tools=list(turn.tools),
        agent=turn.agent,
        model=turn.model,
        source=turn.source,
        trace_id=turn.trace_id,
        span_id=turn.span_id,
        members=list(turn.members),
        time_ns=turn.time_ns,
        conversation_id=turn.conversation_id,
    )


def add_feedback(candidate: Candidate, said: Sequence[Annotation], *, good_from: float) -> Candidate:
    """Add the feedback on the answer. A score below `good_from` means that the recorded answer is not the right one.

    Where no feedback that counts has a score, what others say decides that, and nothing else.
    """
    counted = merge_annotations([one for one in said if one.counted])
    judged = judge_answer(counted)
    if judged is None:
        judged = judge_answer(merge_annotations([one for one in said if not one.counted]))
    wrong = judged is not None and judged < good_from
    if not counted:
        return evolve(candidate, reference=None) if wrong else candidate
    score = mean_score(counted)
    # The last correction of all counts, even if its user added other feedback later.
    in_time = sorted((one for one in said if one.counted), key=lambda one: one.time_ns)
    correction = next((one.correction for one in reversed(in_time) if one.correction), None)
    return evolve(
        candidate,
        reward=score,
        disliked=wrong and score is not None,
        reference=correction or (None if wrong else candidate.answer),
        labels=[one.label for one in counted if one.label],
        feedback=[_feedback(one) for one in counted],
    )


def make_task_id(candidate: Candidate, *, alone: bool = True) -> str:
    """Return an id made from the question and earlier messages; from its span too if these are not unique (`alone`)."""
    content: dict[str, Any] = {"main_query": candidate.query, "init_messages": candidate.init_messages}
    if not alone:
        content |= {"trace_id": candidate.trace_id, "span_id": candidate.span_id}
    return make_content_id(content, candidate.span_id)


def normalise(text: str) -> str:
    """Return a text without differences of case, width, spacing and closing punctuation."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_ENDS)


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _feedback(annotation: Annotation) -> Mapping[str, Any]:
    told = {
        "name": annotation.name,
        "annotator": annotation.annotator,
        "score": annotation.score,
        "label": annotation.label,
        "comment": annotation.comment,
        "correction": annotation.correction,
        "user": annotation.user,
        "time": _iso(annotation.time_ns),
    }
    return {name: value for name, value in told.items() if value not in (None, "")}


def _iso(time_ns: int) -> str | None:
    if not time_ns:
        return None
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return None
