"""The environment: a floor on which a robot moves, one step at a time, until it stands where the parcel is."""

from __future__ import annotations

from typing import Any

from astuner import WorkflowTask

MOVES = {"up": (1, 0), "down": (-1, 0), "west": (0, -1), "east": (0, 1)}
SYSTEM_PROMPT = "Fetch the parcel."

Way = tuple[int, int]
"""From the robot to the parcel: steps up and steps east, negative for down and west."""


class Floor:
    """Each answer moves the robot by one step. Its battery lasts for the shortest way."""

    def __init__(self, workflow_task: WorkflowTask) -> None:
        self.way: Way = tuple(workflow_task.task.metadata["way"])
        self.battery = measure(self.way)

    async def reset(self) -> list[dict[str, Any]]:
        """Return the first messages."""
        return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": describe(self.way)}]

    async def step(self, action: dict[str, Any]) -> tuple[list[dict[str, Any]], float, bool, dict[str, Any]]:
        """Take an answer; return messages, a reward, whether it is over, and how many steps are left to the parcel."""
        self.way = move(self.way, action["content"])
        self.battery -= 1
        left = measure(self.way)
        return [{"role": "user", "content": describe(self.way)}], 0.0, left == 0 or self.battery == 0, {"left": left}

    async def evaluate(self) -> float:
        """Return 1 if the robot has arrived."""
        return float(self.way == (0, 0))

    async def close(self) -> None:
        """There is nothing to release."""


def describe(way: Way) -> str:
    """Return what the robot sees: on which side of it the parcel is, and how far."""
    up, east = way
    sides = ((up, "up"), (-up, "down"), (east, "east"), (-east, "west"))
    return f"Parcel: {', '.join(f'{steps} {side}' for steps, side in sides if steps > 0) or 'here'}."


def move(way: Way, answer: str | None) -> Way:
    """Return what is left of the way after an answer: all of it, if that is not a move."""
    up, east = MOVES.get(answer or "", (0, 0))
    return way[0] - up, way[1] - east


def measure(way: Way) -> int:
    """Return the fewest moves."""
    return abs(way[0]) + abs(way[1])
