"""The rows behind a judge's figures: each answer with its label and verdict, those that the judge got wrong first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import asdict, evolve, frozen

from astuner.contract.schema import Unjudged, Verdict
from astuner_judges.evaluation.agreement import shares_of_rank
from astuner_judges.evaluation.judging import JudgedExample
from astuner_judges.evaluation.limits import Limits

_SHOWN = 5
"""Wrong answers that a table shows."""
_CHARS = 100
"""Most characters of each text there."""


@frozen(kw_only=True)
class JudgedRow:
    """One labelled answer and what the judge says of it."""

    judge: str
    question: str
    answer: str
    label: float
    """More is better; for ranked answers, the negative rank."""
    reward: float | None
    """None without a verdict."""
    good: bool | None
    """By the label; None for ranks."""
    success: bool | None
    """By the verdict; None if it is unknown."""
    wrong: bool | None
    """Whether these two differ, or for ranks whether the judge orders the answer and another one the other way."""
    rationale: str | None
    reason: str | None
    """Why there is no verdict."""
    distance: float
    """How far label and reward are apart, from 0 to 1, each as a share of its ranks."""

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def list_rows(name: str, examples: Sequence[JudgedExample], limits: Limits) -> list[JudgedRow]:
    """Return a row per answer: wrong ones first, the furthest from their label first, then those without a verdict."""
    rows = list(_iterate_rows(name, examples, limits))
    known = [row for row in rows if row.reward is not None]
    labels = shares_of_rank([row.label for row in known])
    rewards = shares_of_rank([row.reward or 0.0 for row in known])
    far = {id(row): abs(float(label - reward)) for row, label, reward in zip(known, labels, rewards, strict=True)}
    placed = [(row, far.get(id(row), 0.0)) for row in rows]
    placed.sort(key=lambda item: (not item[0].wrong, item[0].reward is not None, -item[1]))
    return [evolve(row, distance=round(distance, 6)) for row, distance in placed]


def format_wrong_rows(rows: Sequence[JudgedRow]) -> str:
    """Return the first wrong rows as text, each with its label, reward and reasons; empty if there are none."""
    wrong = [row for row in rows if row.wrong]
    if not wrong:
        return ""
    lines = [f"{len(wrong)} wrong{f'; the first {_SHOWN}' if len(wrong) > _SHOWN else ''} (--out FILE writes all answers):"]
    for row in wrong[:_SHOWN]:
        lines.append(f"  label {row.label:g}, reward {row.reward:g}  {_shorten(row.question)}")
        lines.append(f"      answer: {_shorten(row.answer)}")
        lines += [f"      judge: {_shorten(row.rationale)}"] if row.rationale else []
    return "\n".join(lines)


def format_jsonl(rows: Sequence[JudgedRow], hide: Callable[[str], str] = str) -> str:
    """Return a line of JSON per row; `hide` takes the secrets out of its texts."""
    return "".join(json.dumps(_hide_texts(row.as_json(), hide), ensure_ascii=False) + "\n" for row in rows)


def _hide_texts(fields: Mapping[str, Any], hide: Callable[[str], str]) -> dict[str, Any]:
    return {name: hide(value) if isinstance(value, str) else value for name, value in fields.items()}


def _iterate_rows(name: str, examples: Sequence[JudgedExample], limits: Limits) -> Iterator[JudgedRow]:
    for judged in examples:
        scored = judged.example.scored
        pairs = list(zip(judged.example.answers, judged.forwards, strict=True))
        for answer, judgement in pairs:
            verdict = judgement if isinstance(judgement, Verdict) else None
            good = answer.label >= limits.label if scored else None
            success = None if verdict is None else _find_success(verdict, limits)
            others = [(other.label, found.reward) for other, found in pairs if isinstance(found, Verdict)]
            turned = verdict is not None and any(
                (answer.label - label) * (verdict.reward - reward) < 0 for label, reward in others
            )
            wrong = None if verdict is None else turned if success is None or good is None else good != success
            yield JudgedRow(
                judge=name,
                question=judged.example.query,
                answer=answer.text,
                label=answer.label,
                reward=None if verdict is None else verdict.reward,
                good=good,
                success=success,
                wrong=wrong,
                rationale=None if verdict is None else verdict.rationale,
                reason=f"{judgement.reason}: {judgement.detail}" if isinstance(judgement, Unjudged) else None,
                distance=0.0,
            )


def _find_success(verdict: Verdict, limits: Limits) -> bool | None:
    if verdict.is_success is not None:
        return verdict.is_success
    return None if limits.reward is None else verdict.reward >= limits.reward


def _shorten(text: str) -> str:
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= _CHARS else f"{line[: _CHARS - 1]}…"
