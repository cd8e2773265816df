"""The environment: a frozen lake with holes. Who crosses it sees where the goal is, and the holes next to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astuner import WorkflowTask

SYSTEM_PROMPT = "Cross the lake."
MOVES = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
"""Rows and columns."""
HOLE, GOAL = "H", "G"
SPARE_MOVES = 2
"""How many more moves there are than the shortest way takes."""

Place = tuple[int, int]
"""Row and column, from the top left."""


class Lake:
    """Each answer is a move; the episode ends at the goal, in a hole, or after the last move."""

    def __init__(self, workflow_task: WorkflowTask) -> None:
        self.fields: Sequence[str] = workflow_task.task.metadata["fields"]
        self.place: Place = tuple(workflow_task.task.metadata["start"])
        self.moves = measure(self.fields, self.place) + SPARE_MOVES

    async def reset(self) -> list[dict[str, Any]]:
        """Return the first messages."""
        return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": describe(self.fields, self.place)}]

    async def step(self, action: dict[str, Any]) -> tuple[list[dict[str, Any]], float, bool, dict[str, Any]]:
        """Take an answer; return messages, a reward, whether it is over, and whether it is a success."""
        self.place = move(self.fields, self.place, action["content"])
        self.moves -= 1
        found = look(self.fields, self.place)
        over = found in (HOLE, GOAL) or self.moves == 0
        seen = describe(self.fields, self.place)
        return [{"role": "user", "content": seen}], float(found == GOAL), over, {"is_success": found == GOAL}

    async def evaluate(self) -> float:
        """Return 1 at the goal."""
        return float(look(self.fields, self.place) == GOAL)

    async def close(self) -> None:
        """There is nothing to release."""


def look(fields: Sequence[str], place: Place) -> str | None:
    """Return what is at a place; None outside of the lake."""
    row, column = place
    return fields[row][column] if 0 <= row < len(fields) and 0 <= column < len(fields[0]) else None


def move(fields: Sequence[str], place: Place, answer: str | None) -> Place:
    """Return the place after an answer: the same, if that is no move or leads to the shore."""
    down, right = MOVES.get((answer or "").strip(), (0, 0))
    there = (place[0] + down, place[1] + right)
    return place if look(fields, there) is None else there


def measure(fields: Sequence[str], place: Place) -> int:
    """Return the fewest moves to the goal, which is at the bottom right."""
    return len(fields) - 1 - place[0] + len(fields[0]) - 1 - place[1]


def describe(fields: Sequence[str], place: Place) -> str:
    """Return what is seen from a place: how far the goal is, and which of the four fields around are holes."""
    row, column = place
    ways = ((len(fields) - 1 - row, "south"), (len(fields[0]) - 1 - column, "east"))
    goal = ", ".join(f"{steps} {side}" for steps, side in ways if steps) or "here"
    holes = ", ".join(f"{name}ern" for name, (down, right) in MOVES.items() if look(fields, (row + down, column + right)) == HOLE)
    return f"Goal: {goal}. Holes: {holes or 'none'}."
