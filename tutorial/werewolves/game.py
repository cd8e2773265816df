"""The rules: four players, one of them a wolf. One night, one word of the seer, one vote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

WOLF, SEER, VILLAGER = "wolf", "seer", "villager"

Players = Mapping[str, str]
"""Role by name, in the order in which they sit. Two are villagers."""


def write_messages(role: str, others: Iterable[str], told: str) -> list[dict[str, Any]]:
    """Return what a player is asked: its role, who else is alive, what it was told."""
    return [
        {"role": "system", "content": f"You are a {role}."},
        {"role": "user", "content": f"Alive: {' '.join(others)}. {told}"},
    ]


def find(players: Players, role: str) -> str:
    """Return the name of the first player with a role."""
    return next(name for name in players if players[name] == role)


def count_votes(votes: Iterable[str | None]) -> str | None:
    """Return who has to leave: whom most have named. None for a tie, and if no player was named."""
    named = Counter(vote for vote in votes if vote is not None).most_common(2)
    tied = len(named) == 2 and named[0][1] == named[1][1]
    return named[0][0] if named and not tied else None
