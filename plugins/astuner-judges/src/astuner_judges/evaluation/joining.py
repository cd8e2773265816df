"""Joining labelled answers to one question that are in separate rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from attrs import evolve

from astuner_judges.evaluation.labelled import LabelledExample


def join(examples: Iterable[LabelledExample], most: int | None = None) -> list[LabelledExample]:
    """Return the examples with those of the same task joined, in order of first appearance; at most `most` of them.

    Answers to one question in separate rows are siblings, as the judge of a run sees them. Other values of the rows, such as who
    labelled an answer, do not make them different tasks: they stay with each answer. Ranks hold only within their row.
    """
    found: dict[str | int, list[LabelledExample]] = {}
    for number, example in enumerate(examples):
        known = _identity(example) if example.scored else number
        if known in found:
            found[known].append(example)
        elif most is None or len(found) < most:
            found[known] = [example]
        if len(found) == most and not any(rows[0].scored for rows in found.values()):
            # No later row belongs to a ranked example; one may belong to a scored one.
            break
    return [_merge_rows(rows) for rows in found.values()]


def _identity(example: LabelledExample) -> str:
    task = example.task
    known = [example.query, task.main_query, task.init_messages, task.env_type, example.reference]
    return json.dumps(known, sort_keys=True, default=str)


def _merge_rows(rows: Sequence[LabelledExample]) -> LabelledExample:
    first, *others = rows
    shared = {
        key: value
        for key, value in first.task.metadata.items()
        if all(key in row.task.metadata and row.task.metadata[key] == value for row in others)
    }
    answers = tuple(
        evolve(answer, more={key: value for key, value in row.task.metadata.items() if key not in shared})
        for row in rows
        for answer in row.answers
    )
    return evolve(first, task=evolve(first.task, metadata=shared), answers=answers)
