"""The contract of samplers: what the groups of a step have shown in, a state out, and of it the tasks of the next step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from attrs import frozen

from astuner.contract.protocols import PlayedTask, TaskDraw
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.shape import assert_method, forbid_errors

TASKS = tuple(f"task-{number}" for number in range(12))
REPEATS = 4
STEPS = 8


@frozen(kw_only=True, eq=False)
class _Step:
    """What a sampler was asked, from which state, and its answer."""

    number: int
    count: int
    left: tuple[str, ...]
    state: Mapping[str, Any]
    chosen: Sequence[str]

    def draw(self) -> TaskDraw:
        """Return the question again, with the same chance."""
        return TaskDraw(step=self.number, count=self.count, tasks=self.left, rng=Random(self.number))


class SamplerContract(Contract):
    """Rules for samplers. They need no data: tasks, rewards and successes are made up."""

    kind = "sampler"

    @self_contained
    def test_it_is_a_sampler(self) -> None:
        """A sampler has `choose(draw, state)` and `observe(played, state)`, plain methods."""
        for name, takes, doc in (
            ("choose", ["draw", "state"], "It returns the ids of the tasks of a step."),
            ("observe", ["played", "state"], "It returns the state after a step."),
        ):
            assert_method(self.target(), name, takes, blame=self._blame, doc=doc)

    @self_contained
    def test_it_chooses_what_can_be_played(self, tmp_path: Path) -> None:
        """It returns `draw.count` different ids of `draw.tasks`: of many, of all, and of data that has changed."""
        for step in self._play(tmp_path):
            chosen = list(step.chosen)
            assert len(chosen) == len(set(chosen) & set(step.left)) == step.count, (
                f"{self._blame}: asked for {step.count} of {', '.join(step.left)} it returned {chosen!r:.200}: choose among "
                "`draw.tasks` only, each once, and fill up with others where your choice is too small"
            )

    @self_contained
    def test_its_state_is_json(self, tmp_path: Path) -> None:
        """The state is the same after it was written as JSON and read again: it has texts for keys, and no tuples."""
        for step in self._play(tmp_path):
            with forbid_errors(f"{self._blame}: its state {step.state!r:.200} as JSON", "return plain JSON values"):
                again = json.loads(json.dumps(step.state, allow_nan=False))
            assert again == step.state, (
                f"{self._blame}: its state {step.state!r:.200} is {again!r:.200} after it was written as JSON and read again"
            )

    @self_contained
    def test_the_same_state_gives_the_same(self, tmp_path: Path) -> None:
        """The same question from the same state has the same answer, from another one too: a resumed run plays the same tasks."""
        first, second = list(self._play(tmp_path)), list(self._play(tmp_path))
        other = self._make_or_skip(tmp_path)
        for one, two in zip(first, second, strict=True):
            found = [list(chosen) for chosen in (one.chosen, two.chosen, other.choose(one.draw(), one.state))]
            assert found[0] == found[1] == found[2], (
                f"{self._blame}: step {one.number} chose {found[0]}, and then {found[1]} and {found[2]}: keep everything in the "
                "state, draw with `draw.rng` only, and depend on no clock and on no order of a set"
            )

    @self_contained
    def test_what_it_is_given_stays_as_it_is(self, tmp_path: Path) -> None:
        """The state is not changed in place: a checkpoint may be of the step before."""
        sampler = self._make_or_skip(tmp_path)
        for step in self._play(tmp_path):
            before = json.dumps(step.state)
            sampler.choose(step.draw(), step.state)
            sampler.observe(_show(step.chosen, step.number), step.state)
            changed = "return a new one, as in `{**state, task: …}`"
            assert json.dumps(step.state) == before, f"{self._blame} changed its state {before:.200} in place: {changed}"

    def _play(self, directory: Path) -> Iterator[_Step]:
        sampler, state = self._make_or_skip(directory), dict[str, Any]()
        for number in range(1, STEPS + 1):
            # Some tasks are gone in the end, as after a change of the data; sometimes a step has all of them, or few left.
            left = TASKS if number < STEPS - 1 else TASKS[4:]
            count = len(left) if number == STEPS // 2 else 1 + number % 4
            step = _Step(number=number, count=count, left=left, state=state, chosen=())
            chosen = sampler.choose(step.draw(), state)
            yield _Step(number=number, count=count, left=left, state=state, chosen=chosen)
            state = sampler.observe(_show(chosen, number), state)


def _show(chosen: Sequence[str], step: int) -> list[PlayedTask]:
    """Return groups of all kinds: solved, hopeless and mixed ones, and one without any reward."""
    found = []
    for task in chosen:
        number = TASKS.index(task)
        successes = () if number == 5 and step > 1 else tuple(repeat < number % (REPEATS + 1) for repeat in range(REPEATS))
        found.append(PlayedTask(task_id=task, step=step, rewards=tuple(map(float, successes)), successes=successes))
    return found
