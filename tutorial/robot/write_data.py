"""Writes the demonstrations and the tasks. In the demonstrations half of the moves are at random."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from floor import MOVES, SYSTEM_PROMPT, Way, describe, measure, move

NEW = 10
"""Of the 34 ways, those that only the validation begins with."""
DEMONSTRATIONS = 20
MOST_MOVES = 5
"""In a demonstration."""
RIGHT = 0.5
"""Share of the moves of a demonstration that are chosen to come nearer; the others are any."""

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    ways = [way for way in product(range(-2, 3), range(-3, 4)) if way != (0, 0)]
    random.shuffle(ways)
    new, known = ways[:NEW], ways[NEW:]
    write_rows(directory / "demos.jsonl", [wander(way, random) for way in known[:DEMONSTRATIONS]])
    write_rows(directory / "train.jsonl", map(make_task, known))
    write_rows(directory / "validation.jsonl", map(make_task, new))


def make_task(way: Way) -> Row:
    """Return a row of tasks."""
    return {"main_query": describe(way), "way": way}


def wander(way: Way, random: Random) -> Row:
    """Return a conversation in which the robot moves, often at random, until it arrives or after a few moves."""
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": describe(way)}]
    for _ in range(MOST_MOVES):
        nearer = [answer for answer in MOVES if measure(move(way, answer)) < measure(way)]
        answer = random.choice(nearer if random.random() < RIGHT else list(MOVES))
        way = move(way, answer)
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": describe(way)}]
        if way == (0, 0):
            break
    return {"messages": messages[:-1]}


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
