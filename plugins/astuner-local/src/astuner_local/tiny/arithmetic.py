"""The arithmetic questions of the quickstart, and which numbers are kept for validation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from random import Random

from attrs import frozen

NUMBERS = range(32, 100)
"""Two digits whose product always has four, so that operands and results keep their places: a tiny model copies by place."""

HELD_OUT = tuple(number for number in NUMBERS if number % 7 == 0)
"""Operands of validation only. As 7 is prime, no product of other numbers is a product of these: the answers are new too."""

SHOWN = tuple(number for number in NUMBERS if number % 7)
"""Operands of the warm start and of the training tasks."""


@frozen(kw_only=True)
class Question:
    """A product to compute."""

    a: int
    b: int
    text: str

    @property
    def answer(self) -> int:
        """The product."""
        return self.a * self.b


@cache
def _phrasings() -> tuple[str, ...]:
    return tuple(resources.files(__package__).joinpath("questions.txt").read_text(encoding="utf-8").splitlines())


def ask(random: Random, numbers: Sequence[int]) -> Question:
    """Return a random question about two of the numbers."""
    a, b = random.choice(numbers), random.choice(numbers)
    return Question(a=a, b=b, text=random.choice(_phrasings()).format(a=a, b=b))


def distinct_questions(random: Random, numbers: Sequence[int], count: int) -> list[Question]:
    """Return questions no two of which ask for the same product of the same operands in the same words."""
    questions: dict[str, Question] = {}
    while len(questions) < count:
        question = ask(random, numbers)
        questions.setdefault(question.text, question)
    return list(questions.values())
