"""Writes the demonstrations and the tasks. In the demonstrations most moves are at random, and most walks fail."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from lake import GOAL, HOLE, MOVES, SPARE_MOVES, SYSTEM_PROMPT, Place, describe, look, measure, move

SIZE = 4
HOLES = 5
TRAINED, NEW = 720, 48
"""Lakes. No two are the same."""
DEMONSTRATIONS = 300
NEARER = 0.3
"""Share of the moves of a demonstration that are chosen to come nearer, and not into a hole; the others are any."""

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    lakes: dict[str, Row] = {}
    while len(lakes) < TRAINED + NEW:
        fields = draw_lake(random)
        starts = [place for place in product(range(SIZE), repeat=2) if measure(fields, place) >= 2 and is_open(fields, place)]
        if starts:
            lakes.setdefault(" ".join(fields), make_task(fields, random.choice(starts)))
    tasks = list(lakes.values())
    known, new = tasks[:TRAINED], tasks[TRAINED:]
    write_rows(directory / "demos.jsonl", [wander(task, random) for task in random.choices(known, k=DEMONSTRATIONS)])
    write_rows(directory / "train.jsonl", known)
    write_rows(directory / "validation.jsonl", new)


def draw_lake(random: Random) -> list[str]:
    """Return the rows of a lake, with the goal at the bottom right."""
    fields = [HOLE] * HOLES + ["F"] * (SIZE * SIZE - HOLES - 1)
    random.shuffle(fields)
    fields.append(GOAL)
    return ["".join(fields[row * SIZE : (row + 1) * SIZE]) for row in range(SIZE)]


def list_nearer(fields: Sequence[str], place: Place) -> list[str]:
    """Return the moves that come nearer to the goal and do not lead into a hole."""
    there = {name: move(fields, place, name) for name in ("south", "east")}
    return [name for name, next_place in there.items() if next_place != place and look(fields, next_place) != HOLE]


def is_open(fields: Sequence[str], place: Place) -> bool:
    """Return whether a place is ice, and no way of nearer and nearer fields from it leads into a dead end."""
    found, nearer = look(fields, place), list_nearer(fields, place)
    if found in (HOLE, GOAL):
        return found == GOAL
    return bool(nearer) and all(is_open(fields, move(fields, place, name)) for name in nearer)


def make_task(fields: Sequence[str], start: Place) -> Row:
    """Return a row of tasks."""
    return {"main_query": " ".join(fields), "fields": fields, "start": start}


def wander(task: Row, random: Random) -> Row:
    """Return a conversation with moves at random, as long as the environment allows."""
    fields, place = task["fields"], task["start"]
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": describe(fields, place)}]
    for _ in range(measure(fields, place) + SPARE_MOVES):
        nearer = list_nearer(fields, place)
        answer = random.choice(nearer if nearer and random.random() < NEARER else list(MOVES))
        place = move(fields, place, answer)
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": describe(fields, place)}]
        if look(fields, place) in (HOLE, GOAL):
            break
    return {"messages": messages[:-1]}


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
