"""Writes the demonstrations and the tasks. In the demonstrations, half of the guesses pay no attention to what was answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from agent import GUESSES, SYSTEM_PROMPT, answer

WIDTH = 7
"""Numbers of a range."""
HELD_OUT = 20
"""Ranges that only the validation plays."""
VALIDATION_TASKS = 120
DEMONSTRATIONS = 64
ATTENTIVE = 0.5
"""Share of the guesses of a demonstration that fit what was answered; the others are any of the range."""

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    starts = random.sample(range(10, 100 - WIDTH), 83)
    known, new = list_games(starts[HELD_OUT:]), list_games(starts[:HELD_OUT])
    write_rows(directory / "demos.jsonl", [demonstrate(game, random) for game in random.sample(known, DEMONSTRATIONS)])
    write_rows(directory / "train.jsonl", random.sample(known, len(known)))
    write_rows(directory / "validation.jsonl", random.sample(new, VALIDATION_TASKS))


def list_games(starts: Sequence[int]) -> list[Row]:
    """Return a row for every number of every range."""
    ranges = product(starts, range(WIDTH))
    return [
        {
            "main_query": f"My number is from {low} to {low + WIDTH - 1}.",
            "low": low,
            "high": low + WIDTH - 1,
            "secret": low + more,
        }
        for low, more in ranges
    ]


def demonstrate(game: Row, random: Random) -> Row:
    """Return a game of somebody who writes numbers of the range, and listens half of the time."""
    left = every = range(game["low"], game["high"] + 1)
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": game["main_query"]}]
    for _ in range(GUESSES):
        guess = random.choice(left if random.random() < ATTENTIVE else every)
        messages += [{"role": "assistant", "content": str(guess)}, {"role": "user", "content": answer(game["secret"], guess)}]
        if guess == game["secret"]:
            break
        left = (
            range(max(left.start, guess + 1), left.stop) if guess < game["secret"] else range(left.start, min(left.stop, guess))
        )
    return {"messages": messages[:-1]}


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
