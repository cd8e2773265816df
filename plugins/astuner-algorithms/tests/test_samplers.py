"""Samplers of the literature: their contracts, and choices by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import PlayedTask, TaskDraw
from astuner.settings.plugins.options import build_options
from astuner_algorithms.samplers import Pools, ReplaySolved, SuccessRate
from astuner_devkit.contracts import SamplerContract

TASKS = ("never", "half", "always", "new")
KNOWN = {"never": [0.0, 9], "half": [0.5, 9], "always": [1.0, 9]}


class TestSuccessRate(SamplerContract):
    component = "astuner_algorithms.samplers:SuccessRate"


class TestSuccessRateWithoutExploration(SamplerContract):
    component = "astuner_algorithms.samplers:SuccessRate"
    options: ClassVar[dict[str, float]] = {"floor": 0.0, "decay": 1.0}


class TestPools(SamplerContract):
    component = "astuner_algorithms.samplers:Pools"


class TestReplaySolved(SamplerContract):
    component = "astuner_algorithms.samplers:ReplaySolved"


def draw(count: int, tasks: Sequence[str] = TASKS, *, step: int = 10, seed: int = 1) -> TaskDraw:
    return TaskDraw(step=step, count=count, tasks=tasks, rng=Random(seed))


def count_first(sampler: Any, state: Any, *, step: int = 10, draws: int = 4000) -> dict[str, float]:
    """Return how often each task is the only one that is chosen."""
    found = Counter(sampler.choose(draw(1, step=step, seed=seed), state)[0] for seed in range(draws))
    return {task: found[task] / draws for task in TASKS}


def play(task: str, successes: str, step: int = 10, rewards: Sequence[float] = ()) -> PlayedTask:
    known = tuple(letter == "+" for letter in successes)
    return PlayedTask(task_id=task, step=step, rewards=tuple(rewards or map(float, known)), successes=known)


def test_tasks_are_drawn_by_what_there_is_to_learn() -> None:
    sampler = SuccessRate(SuccessRate.Options(floor=0.25))
    # Of the weights 0.25, 1, 0.25 and, for the new one, 1.
    expected = {"never": 0.1, "half": 0.4, "always": 0.1, "new": 0.4}
    assert count_first(sampler, KNOWN) == pytest.approx(expected, abs=0.03)


def test_without_a_floor_tasks_that_teach_nothing_only_fill_up() -> None:
    sampler = SuccessRate(SuccessRate.Options(floor=0.0, decay=1.0))
    for seed in range(50):
        chosen = sampler.choose(draw(3, seed=seed), KNOWN)
        assert set(chosen[:2]) == {"half", "new"}
        assert len(set(chosen)) == 3


def test_a_task_that_was_not_played_for_long_counts_as_a_new_one() -> None:
    sampler = SuccessRate(SuccessRate.Options(floor=0.0, decay=0.5))
    # A step later the weight of "never" is 1 - 0.5, and after twenty all but 1.
    soon, late = count_first(sampler, KNOWN, step=11), count_first(sampler, KNOWN, step=30)
    assert soon == pytest.approx({"never": 1 / 6, "half": 1 / 3, "always": 1 / 6, "new": 1 / 3}, abs=0.03)
    assert late == pytest.approx(dict.fromkeys(TASKS, 0.25), abs=0.03)


def test_a_success_rate_is_a_moving_mean() -> None:
    sampler = SuccessRate(SuccessRate.Options(memory=0.75))
    found = sampler.observe([play("half", "++++"), play("new", "+---")], KNOWN)
    assert found == KNOWN | {"half": [0.625, 10], "new": [0.25, 10]}


def test_a_group_without_a_known_success_leaves_its_task_as_it_was() -> None:
    found = SuccessRate().observe([play("half", ""), play("new", "+-")], KNOWN)
    assert found == KNOWN | {"new": [0.5, 10]}


@pytest.mark.parametrize("kind", [SuccessRate, Pools, ReplaySolved])
def test_rewards_can_say_what_a_success_is(kind: Any) -> None:
    given = play("new", "", rewards=(0.2, 0.7, 0.9, 1.0))
    with pytest.raises(ValueError, match="set success_from"):
        kind().observe([given], {})
    assert kind(kind.Options(success_from=0.9)).observe([given], {}) == {"new": [0.5, 10]}


def test_each_pool_has_its_share() -> None:
    sampler = Pools(Pools.Options(easy=1.0, medium=2.0, hard=1.0))
    assert count_first(sampler, KNOWN) == pytest.approx({"never": 0.25, "half": 0.25, "always": 0.25, "new": 0.25}, abs=0.03)
    assert count_first(sampler, {**KNOWN, "new": [0.05, 9]}) == pytest.approx(
        {"never": 0.125, "half": 0.5, "always": 0.25, "new": 0.125}, abs=0.03
    )


def test_a_task_moves_between_pools_as_it_is_learnt() -> None:
    sampler = Pools(Pools.Options(easy=0.0, hard=0.0, memory=0.0))
    state = sampler.observe([play(task, "----") for task in TASKS[:3]], {})
    assert {sampler.choose(draw(1, seed=seed), state)[0] for seed in range(20)} == {"new"}
    state = sampler.observe([play("half", "+--+"), play("new", "++++")], state)
    assert {sampler.choose(draw(1, seed=seed), state)[0] for seed in range(20)} == {"half"}


def test_a_pool_without_a_share_fills_up() -> None:
    sampler = Pools(Pools.Options(easy=0.0, hard=0.0))
    assert set(sampler.choose(draw(4), KNOWN)) == set(TASKS)


def test_thresholds_of_pools_have_an_order() -> None:
    with pytest.raises(ConfigError, match=r"'easy_from' \(0.4\) must be above hard_to \(0.5\)"):
        build_options(Pools, {"hard_to": 0.5, "easy_from": 0.4}, key="data.pools")


def test_a_share_of_the_batch_is_solved_tasks_the_longest_unplayed_first() -> None:
    tasks = [f"{kind}{number}" for kind in ("solved", "open") for number in range(4)]
    state = {task: [float(task.startswith("solved")), 9 - int(task[-1])] for task in tasks}
    chosen = ReplaySolved(ReplaySolved.Options(share=0.5)).choose(draw(4, tasks), state)
    assert chosen == ["solved3", "solved2", "open3", "open2"]


def test_new_tasks_come_before_those_that_were_played() -> None:
    assert ReplaySolved(ReplaySolved.Options(share=0.0)).choose(draw(1), KNOWN) == ["new"]


@pytest.mark.parametrize(("solved", "expected"), [(0, 0), (1, 1), (7, 3), (8, 4)])
def test_solved_tasks_fill_up_what_others_lack_and_no_more(solved: int, expected: int) -> None:
    tasks = [str(number) for number in range(8)]
    state = {task: [float(int(task) < solved), 1] for task in tasks}
    chosen = ReplaySolved(ReplaySolved.Options(share=0.25)).choose(draw(4, tasks), state)
    replayed = sum(int(task) < solved for task in chosen)
    assert len(set(chosen)) == 4
    assert replayed == expected


def test_a_solved_task_that_fails_is_no_longer_solved() -> None:
    sampler = ReplaySolved(ReplaySolved.Options(share=1.0))
    state = sampler.observe([play("half", "+++-", 11)], {task: [1.0, 10] for task in TASKS})
    assert "half" not in sampler.choose(draw(3), state)
