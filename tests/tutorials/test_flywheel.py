"""The tutorial `feedback_flywheel` as its page tells it: users dislike the first day's agent, and like the tuned one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_commands import Bash

QUESTIONS = 96


@pytest.fixture(scope="module")
def said(follow_tutorial: Callable[[str], list[str]]) -> str:
    """All that the commands of the page printed."""
    return "".join(follow_tutorial("feedback_flywheel"))


@pytest.fixture
def home(clone: Path, said: str) -> Path:
    return clone / "tutorial" / "feedback_flywheel"


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_the_tuned_agent_is_liked(said: str):
    liked = [int(count) for count in re.findall(rf"day \d: (\d+) of {QUESTIONS} answers were liked", said)]
    assert len(liked) == 2
    assert liked[0] <= 5
    assert liked[1] >= 90


def test_every_task_has_the_right_answer(home: Path):
    # Right or wrong, after a user's word.
    rows = read_rows(home / "tasks.jsonl") + read_rows(home / "validation.jsonl")
    assert len(rows) > QUESTIONS // 2
    products = [re.search(r"(\d+) \* (\d+)", row["main_query"]) for row in rows]
    answers = [str(int(found[1]) * int(found[2])) for found in products if found]
    assert len(answers) == len(rows)
    assert all(answer in row["metadata"]["answer"] for answer, row in zip(answers, rows, strict=True))


def test_every_episode_was_judged(home: Path):
    steps = [row for row in read_rows(home / "launcher_record/day_1/metrics.jsonl") if "reward/mean" in row]
    assert [row["signal/episodes_rewarded"] for row in steps] == [64] * 24


def test_the_second_day_is_appended_to_the_first(home: Path, bash: Bash):
    said = bash("astuner trace import traces.jsonl --out again.jsonl --keep-duplicates --json 2>/dev/null", home)
    counts = json.loads(said)
    assert (counts["traces"], counts["annotations"], counts["broken"]) == (2 * QUESTIONS, 2 * QUESTIONS, [])
    assert counts["tasks"]["train"] == 2 * QUESTIONS
