"""The environment: a guest who wants a table, and has said only a part of what the desk must know."""

from __future__ import annotations

from typing import Any

from astuner import WorkflowTask

SYSTEM_PROMPT = "Book a table."
SLOTS = {"size": ("two", "three", "four", "five", "six", "eight"), "day": ("monday", "tuesday", "friday", "saturday", "sunday")}
MOST_ANSWERS = 4

Wish = dict[str, str]
"""What the guest wants, by slot."""


class Desk:
    """`ask SLOT` is answered; `book SIZE DAY` ends the episode."""

    def __init__(self, workflow_task: WorkflowTask) -> None:
        self.wish: Wish = workflow_task.task.metadata["wish"]
        self.opening = workflow_task.task.main_query
        self.answers = self.questions = 0
        self.booked = False

    async def reset(self) -> list[dict[str, Any]]:
        """Return the first messages."""
        return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": self.opening}]

    async def step(self, action: dict[str, Any]) -> tuple[list[dict[str, Any]], float, bool, dict[str, Any]]:
        """Take an answer; return messages, a reward, whether it is over, and what was asked and booked."""
        self.answers += 1
        verb, _, rest = (action["content"] or "").strip().partition(" ")
        if verb == "ask" and rest in self.wish:
            self.questions += 1
            seen = f"{rest}: {self.wish[rest]}."
        else:
            self.booked = verb == "book" and rest == write_booking(self.wish)
            seen = "Thank you."
        over = seen == "Thank you." or self.answers == MOST_ANSWERS
        return [{"role": "user", "content": seen}], 0.0, over, {"questions": self.questions, "booked": self.booked}

    async def evaluate(self) -> float:
        """Return 1 for the right table; what questions cost is the judge's."""
        return float(self.booked)

    async def close(self) -> None:
        """There is nothing to release."""


def write_opening(wish: Wish, told: tuple[str, ...]) -> str:
    """Return what the guest says first: the slots in `told`."""
    parts = {"size": f"for {wish['size']}", "day": f"on {wish['day']}"}
    return " ".join(["A table", *(parts[slot] for slot in SLOTS if slot in told)]) + ", please."


def write_booking(wish: Wish) -> str:
    """Return the arguments of the right booking."""
    return f"{wish['size']} {wish['day']}"
