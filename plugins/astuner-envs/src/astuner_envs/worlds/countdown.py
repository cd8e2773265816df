"""The environment `countdown`: reach a target with some numbers, each used at most once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, le

from astuner.contract.protocols import EnvironmentTraits
from astuner.contract.schema import Message, Split, Task, WorkflowTask
from astuner_envs.arithmetic import NotArithmetic, Value, evaluate
from astuner_envs.listing import NumberedTasks, draw_for_split, list_numbered, locate_task, make_random
from astuner_envs.message_answers import extract_answer

NAME = "countdown"
CLOSE_SCORE = 0.1
"""Score of an expression that uses the numbers correctly but misses the target, unless the score is sparse."""


@frozen
class Puzzle:
    """One task."""

    numbers: tuple[int, ...]
    target: int
    solution: str
    """One solution; there may be others."""


class Countdown:
    """Every puzzle can be solved. The model has some attempts, and sees the value of each."""

    traits = EnvironmentTraits(has_sparse_score=True)

    @frozen(kw_only=True)
    class Options(NumberedTasks):
        """Options of the environment `countdown`."""

        numbers: int = field(default=4, validator=and_(ge(2), le(8)))
        """How many numbers there are."""
        largest: int = field(default=25, validator=ge(3))
        """The largest of them."""
        largest_target: int = field(default=100, validator=ge(10))
        """The largest target."""
        attempts: int = field(default=3, validator=ge(1))
        """How often the model may try."""
        use_all: bool = False
        """Whether every number must be used."""

    def __init__(self, workflow_task: WorkflowTask, options: Options | None = None) -> None:
        self._task_id, self._options = workflow_task.task.task_id, options or self.Options()
        self._puzzle: Puzzle | None = None
        self._attempts, self._best = 0, 0.0

    @classmethod
    def list_tasks(cls, options: Options, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split."""
        return list_numbered(NAME, options, split)

    async def reset(self) -> Sequence[Message]:
        """Return the rules and the puzzle."""
        puzzle = self._puzzle = make_puzzle(self._task_id, self._options)
        some = "every number exactly once" if self._options.use_all else "each number at most once"
        rules = (
            f"You play Countdown. Write one expression with + - * / and brackets that comes to the target, and use {some}. "
            f"Put it in \\boxed{{…}}. You have {self._options.attempts} attempts."
        )
        asked = f"Numbers: {', '.join(map(str, puzzle.numbers))}. Target: {puzzle.target}."
        return [{"role": "system", "content": rules}, {"role": "user", "content": asked}]

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Take an attempt."""
        if self._puzzle is None:
            raise RuntimeError("step comes after reset")
        self._attempts += 1
        said, score = self._judge_answer(extract_answer(action))
        gained, self._best = max(0.0, score - self._best), max(self._best, score)
        left = self._options.attempts - self._attempts
        done = score == 1.0 or left <= 0
        if not done:
            said += f" Attempts left: {left}."
        return [{"role": "user", "content": said}], gained, done, {"is_success": self._best == 1.0, "attempts": self._attempts}

    async def evaluate(self, sparse: bool = False) -> float:
        """Return 1 for a solution; else 0, or a little for correct use of the numbers."""
        return float(self._best == 1.0) if sparse else self._best

    async def close(self) -> None:
        """Nothing to release."""

    def _judge_answer(self, text: str) -> tuple[str, float]:
        puzzle = self._puzzle
        assert puzzle is not None
        try:
            value = evaluate(text.partition("=")[0])
        except NotArithmetic as error:
            return f"That does not count: {error}.", 0.0
        if wrong := self._find_misuse(value, puzzle):
            return f"That does not count: {wrong}.", 0.0
        if value.number == puzzle.target:
            return f"Right: that is {value}.", 1.0
        return f"That is {value}, not {puzzle.target}.", CLOSE_SCORE

    def _find_misuse(self, value: Value, puzzle: Puzzle) -> str:
        used, there = Counter(value.used), Counter(map(Fraction, puzzle.numbers))
        if extra := list((used - there).elements()):
            return f"{extra[0]} is not among the numbers, or used too often"
        if self._options.use_all and (left := list((there - used).elements())):
            return f"{left[0]} is not used"
        return ""


def make_puzzle(task_id: str, options: Countdown.Options) -> Puzzle:
    """Make the puzzle with this id."""
    split, number = locate_task(task_id, options)
    draw = make_random(f"{NAME}/{options.numbers}/{options.largest}/{options.largest_target}", options, split, number)
    return draw_for_split(
        NAME, split, lambda: _draw_puzzle(draw, options), lambda puzzle: (sorted(puzzle.numbers), puzzle.target)
    )


def _draw_puzzle(draw: random.Random, options: Countdown.Options) -> Puzzle | None:
    """Combine numbers at random until one value is left: the target; the steps are the solution."""
    numbers = [draw.randint(1, options.largest) for _ in range(options.numbers)]
    parts = [(Fraction(number), str(number)) for number in numbers]
    while len(parts) > 1:
        (left, left_text), (right, right_text) = (parts.pop(draw.randrange(len(parts))) for _ in range(2))
        signs = [sign for sign, fits in _signs(left, right) if fits]
        sign = draw.choice(signs)
        value = evaluate(f"({left}){sign}({right})").number
        parts.append((value, f"({left_text} {sign} {right_text})"))
    target, text = parts[0]
    # A target that is one of the numbers is not a puzzle, unless all must be used.
    if not 10 <= target <= options.largest_target or (target in numbers and not options.use_all):
        return None
    return Puzzle(tuple(numbers), int(target), text[1:-1])


def _signs(left: Fraction, right: Fraction) -> list[tuple[str, bool]]:
    return [("+", True), ("*", True), ("-", left > right), ("/", right != 0 and (left / right).denominator == 1)]
