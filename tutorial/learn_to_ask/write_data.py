"""Writes the demonstrations and the tasks. In the demonstrations a clerk asks and books at random."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from desk import MOST_ANSWERS, SLOTS, SYSTEM_PROMPT, Wish, write_booking, write_opening

TOLD = ((), ("size",), ("day",), ("size", "day"))
"""What a guest may have said."""
NEW = 8
"""Of the 30 wishes, those that only the validation has."""
DEMONSTRATIONS = 300

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    wishes: list[Wish] = [dict(zip(SLOTS, values, strict=True)) for values in product(*SLOTS.values())]
    random.shuffle(wishes)
    new, known = wishes[:NEW], wishes[NEW:]
    openings = [(wish, told) for wish in known for told in TOLD]
    write_rows(directory / "demos.jsonl", [serve(*opening, random) for opening in random.choices(openings, k=DEMONSTRATIONS)])
    write_rows(directory / "train.jsonl", [make_task(*opening) for opening in openings])
    write_rows(directory / "validation.jsonl", [make_task(wish, told) for wish in new for told in TOLD])


def make_task(wish: Wish, told: tuple[str, ...]) -> Row:
    """Return a row of tasks."""
    return {"main_query": write_opening(wish, told), "wish": wish, "hidden": len(SLOTS) - len(told)}


def serve(wish: Wish, told: tuple[str, ...], random: Random) -> Row:
    """Return a conversation with questions at random, and a booking in which what is unknown is guessed."""
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": write_opening(wish, told)}]
    known = {slot: wish[slot] for slot in told}
    for _ in range(MOST_ANSWERS - 1):
        slot = random.choice([*SLOTS, None, None])
        if slot is None:
            break
        known[slot] = wish[slot]
        messages += [{"role": "assistant", "content": f"ask {slot}"}, {"role": "user", "content": f"{slot}: {wish[slot]}."}]
    booked = {slot: known.get(slot) or random.choice(values) for slot, values in SLOTS.items()}
    return {"messages": [*messages, {"role": "assistant", "content": f"book {write_booking(booked)}"}]}


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
