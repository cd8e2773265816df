"""Samplers of the literature: which tasks a step plays, with p the success rate that a task has shown.

Each is a pure function of a state in JSON, which core keeps. p is a moving mean over the steps that played the task, and a task
that was not played yet has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le, lt

from astuner.contract.protocols import PlayedTask, TaskDraw

SHARE = and_(ge(0.0), le(1.0))


class SuccessRate:
    """Draws tasks by how much there is to learn: w = floor + (1 - floor)·4p(1 - p), and 1 for a task that has no p yet.

    p(1 - p) is the variance of the success, which is where siblings differ: "learnability" (Rutherford et al. 2024, arXiv
    2408.15099; for language models Foster et al. 2025, arXiv 2502.12272). Since a weight is old when its task was not played for
    long, it returns to 1: after s steps it counts 1 - (1 - w)·decay^s, in place of the paper's regular measurement of all tasks.
    """

    @frozen(kw_only=True)
    class Options:
        """How it draws."""

        floor: float = field(default=0.05, validator=SHARE)
        """Weight of a task that always succeeds or always fails; the largest weight is 1."""
        decay: float = field(default=0.99, validator=and_(gt(0), le(1)))
        """What is left after a step of what a weight lacks to 1, for tasks that were not played; 1 keeps weights as they are."""
        memory: float = field(default=0.5, validator=and_(ge(0), lt(1)))
        """Share of the old p in the new one."""
        success_from: float | None = None
        """The reward from which an episode is a success; null takes the success that the judge names."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the options."""
        self.options = options or self.Options()

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        """Draw different tasks, each with a probability in proportion to its weight among those left."""
        # Sorted by exponential waiting times with these rates (Efraimidis and Spirakis 2006); a weight of 0 comes last.
        weights = {task: self._weigh(state.get(task), draw.step) for task in draw.tasks}
        waits = {task: (weight == 0, -math.log(1 - draw.rng.random()) / (weight or 1)) for task, weight in weights.items()}
        return sorted(draw.tasks, key=waits.__getitem__)[: draw.count]

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state: p and the last step of each task."""
        return _update(played, state, self.options)

    def _weigh(self, known: Sequence[Any] | None, step: int) -> float:
        if known is None:
            return 1.0
        p, last = known
        weight = self.options.floor + (1 - self.options.floor) * 4 * p * (1 - p)
        return float(1 - (1 - weight) * self.options.decay ** (step - last - 1))


def _check_order(options: Any, _: Attribute[Any], easy_from: float) -> None:
    if not options.hard_to < easy_from:
        raise ValueError(f"'easy_from' ({easy_from:g}) must be above hard_to ({options.hard_to:g})")


class Pools:
    """Keeps tasks in pools by difficulty, and gives each pool a share of the batch.

    Hard are tasks with p ≤ hard_to, easy those with p ≥ easy_from, and medium all others, those without a p among them: the pools
    of prime-rl's buffer. Choosing tasks by the success rate that they had in training is Kimi k1.5's (2025, arXiv 2501.12599). An
    empty pool leaves its share to the others.
    """

    @frozen(kw_only=True)
    class Options:
        """The shares, which are weights: they need not add up to 1."""

        easy: float = field(default=0.1, validator=ge(0))
        """Share of tasks that nearly always succeed."""
        medium: float = field(default=0.7, validator=gt(0))
        """Share of the others."""
        hard: float = field(default=0.2, validator=ge(0))
        """Share of tasks that nearly always fail."""
        hard_to: float = field(default=0.1, validator=SHARE)
        """The largest p of a hard task."""
        easy_from: float = field(default=0.9, validator=[SHARE, _check_order])
        """The smallest p of an easy task."""
        memory: float = field(default=0.5, validator=and_(ge(0), lt(1)))
        """Share of the old p in the new one."""
        success_from: float | None = None
        """The reward from which an episode is a success; null takes the success that the judge names."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the options."""
        self.options = options or self.Options()

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        """Draw a pool for each place of the batch, by their shares, and then one of its tasks."""
        pools: dict[str, list[str]] = {"easy": [], "medium": [], "hard": []}
        for task in draw.rng.sample(draw.tasks, len(draw.tasks)):
            pools[self._find_pool(state.get(task))].append(task)
        chosen: list[str] = []
        while len(chosen) < draw.count:
            filled = [name for name, tasks in pools.items() if tasks]
            shares = [getattr(self.options, name) for name in filled]
            # A pool without a share is used if there is nothing else.
            chosen.append(pools[draw.rng.choices(filled, shares if any(shares) else None)[0]].pop())
        return chosen

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state: p and the last step of each task."""
        return _update(played, state, self.options)

    def _find_pool(self, known: Sequence[Any] | None) -> str:
        p = None if known is None else known[0]
        if p is None or self.options.hard_to < p < self.options.easy_from:
            return "medium"
        return "easy" if p >= self.options.easy_from else "hard"


class ReplaySolved:
    """Gives a share of each batch to tasks that were solved, so that they are not forgotten.

    That is rehearsal (Robins 1995, doi 10.1080/09540099550039318; for reinforcement learning Rolnick et al. 2019, arXiv
    1811.11682), by playing them again instead of keeping their old answers. Solved is a task with p ≥ solved_from. Among the
    solved as among the others, tasks that were never played come first, then those that were not played for longest.
    """

    @frozen(kw_only=True)
    class Options:
        """How much is replayed, and what."""

        share: float = field(default=0.25, validator=SHARE)
        """Share of each batch for solved tasks, as far as there are enough; 0 leaves them out while there are others."""
        solved_from: float = field(default=1.0, validator=and_(gt(0), le(1)))
        """The smallest p of a solved task."""
        memory: float = field(default=0.0, validator=and_(ge(0), lt(1)))
        """Share of the old p in the new one."""
        success_from: float | None = None
        """The reward from which an episode is a success; null takes the success that the judge names."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the options."""
        self.options = options or self.Options()

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        """Return round(share·count) solved tasks and others; one kind fills up what the other lacks."""
        shuffled = draw.rng.sample(draw.tasks, len(draw.tasks))
        by_age = sorted(shuffled, key=lambda task: state[task][1] if task in state else 0)
        solved = [task for task in by_age if task in state and state[task][0] >= self.options.solved_from]
        others = [task for task in by_age if task not in state or state[task][0] < self.options.solved_from]
        replayed = max(round(self.options.share * draw.count), draw.count - len(others))
        return [*solved[:replayed], *others][: draw.count]

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state: p and the last step of each task."""
        return _update(played, state, self.options)


def _update(played: Sequence[PlayedTask], state: Mapping[str, Any], options: Any) -> Mapping[str, Any]:
    """Return `{task: [p, last step]}` after a step; a task of which no success is known stays as it was.

    Raises `ValueError` if the judge names no success at all.
    """
    found = dict(state)
    for one in played:
        successes = one.successes if options.success_from is None else [reward >= options.success_from for reward in one.rewards]
        if successes:
            rate = sum(successes) / len(successes)
            old = state[one.task_id][0] if one.task_id in state else rate
            found[one.task_id] = [options.memory * old + (1 - options.memory) * rate, one.step]
    if any(one.rewards for one in played) and not any(one.successes for one in played) and options.success_from is None:
        raise ValueError(
            "the judge gives rewards and no success; set success_from, the reward from which an episode is a success"
        )
    return found
