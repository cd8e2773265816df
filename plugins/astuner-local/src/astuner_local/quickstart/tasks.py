"""The tasks of the quickstart: questions for training, and others about numbers that training never shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

TRAIN_TASKS = 400
VALIDATION_TASKS = 40


def write_tasks(directory: Path, seed: int) -> None:
    """Write `train.jsonl` and `validation.jsonl`; no prompt and no operand is in both."""
    from astuner_local.tiny.arithmetic import HELD_OUT, SHOWN

    directory.mkdir()
    for name, numbers, count in (("train", SHOWN, TRAIN_TASKS), ("validation", HELD_OUT, VALIDATION_TASKS)):
        rows = _rows(Random(f"{seed}/{name}"), numbers, count, name)
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _rows(random: Random, numbers: Sequence[int], count: int, name: str) -> Iterator[dict[str, Any]]:
    from astuner_local.tiny.arithmetic import distinct_questions

    for position, question in enumerate(distinct_questions(random, numbers, count)):
        yield {"task_id": f"{name}-{position:03}", "main_query": question.text, "answer": str(question.answer)}
