"""Writes the games and the demonstrations: players who believe the seer, and seers who tell the truth, more often than not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

from agent import BITE, NAME, SILENCE, VOTE, tell
from game import SEER, VILLAGER, WOLF, Players, write_messages

NAMES = ("ada", "ben", "cleo", "dan")
ROLES = (WOLF, SEER, VILLAGER, VILLAGER)
NEW = 48
"""Of the 288 seatings, those that only the validation has."""
DEMONSTRATIONS = 600
TRUE = 0.4
"""Share of the names that a seer gives because of what it saw, and of the votes that follow the seer; the others are any."""

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    games = [dict(zip(seats, roles, strict=True)) for seats in permutations(NAMES) for roles in sorted(set(permutations(ROLES)))]
    random.shuffle(games)
    new, known = games[:NEW], games[NEW:]
    write_rows(directory / "demos.jsonl", [demonstrate(random.choice(known), random) for _ in range(DEMONSTRATIONS)])
    write_rows(directory / "train.jsonl", map(make_task, known))
    write_rows(directory / "validation.jsonl", map(make_task, new))


def make_task(players: Players) -> Row:
    """Return a row of tasks: who sits where, with which role. Nobody is asked its query."""
    return {"main_query": ", ".join(f"{name}: {role}" for name, role in players.items()), "players": players}


def demonstrate(players: Players, random: Random) -> Row:
    """Return one answer of one player."""
    name = random.choice(list(players))
    others = [other for other in players if other != name]
    if players[name] == WOLF and random.random() < 0.5:
        return write_row(players, name, others, BITE, random.choice(others))
    others.remove(random.choice([other for other in others if players[other] != WOLF]))
    if players[name] == SEER:
        wolf = next(other for other in others if players[other] == WOLF)
        named = wolf if random.random() < TRUE else random.choice(others)
        return write_row(players, name, others, f"{tell(wolf)} {NAME}", named)
    said = random.choice(others)
    heard = random.random() < 2 / 3
    vote = said if heard and random.random() < TRUE else random.choice(others)
    return write_row(players, name, others, f"{f'The seer says {said}.' if heard else SILENCE} {VOTE}", vote)


def write_row(players: Players, name: str, others: Iterable[str], told: str, answer: str) -> Row:
    """Return a conversation of one question."""
    return {"messages": [*write_messages(players[name], others, told), {"role": "assistant", "content": answer}]}


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
