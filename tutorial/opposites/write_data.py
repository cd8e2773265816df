"""Writes the demonstrations and the tasks: 20 of the 240 questions are demonstrated, 24 are only asked in the validation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

from agent import SYSTEM_PROMPT

PAIRS = (
    ("hot", "cold"),
    ("big", "small"),
    ("fast", "slow"),
    ("old", "new"),
    ("up", "down"),
    ("rich", "poor"),
    ("light", "dark"),
    ("early", "late"),
)
OPPOSITES = {word: other for pair in PAIRS for word, other in (pair, pair[::-1])}
NEW = 24
"""Of the 240 questions, those that only the validation asks."""
DEMONSTRATIONS = 20

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    questions = list(permutations(OPPOSITES, 2))
    random.shuffle(questions)
    new, shown, known = questions[:NEW], questions[NEW : NEW + DEMONSTRATIONS], questions[NEW + DEMONSTRATIONS :]
    write_rows(directory / "demos.jsonl", (demonstrate(words) for words in shown))
    write_rows(directory / "train.jsonl", map(make_task, known))
    write_rows(directory / "validation.jsonl", map(make_task, new))


def make_task(words: Sequence[str]) -> Row:
    """Return a row of tasks."""
    return {"main_query": ask(words), "opposites": [OPPOSITES[word] for word in words]}


def ask(words: Sequence[str]) -> str:
    """Return a question."""
    return f"Words: {', '.join(words)}."


def demonstrate(words: Sequence[str]) -> Row:
    """Return the conversation in which a question is answered."""
    answer = [OPPOSITES[word] for word in words]
    return {
        "messages": [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": ask(words)},
            {"role": "assistant", "content": f"Answer: {', '.join(answer)}."},
        ]
    }


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
