"""What a dry run says that a run plays at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.schema import Split, Task
from astuner.episodes.rollout.sampler import TaskSampler
from astuner.settings.config.model import Config
from astuner_tools.dry_run.episode_bounds import bound_training_episodes, count_validation_episodes

STEPS = 5


class Rows:
    """Ten tasks to train, three to validate."""

    def read(self, split: Split) -> Iterator[Task]:
        return (Task(task_id=str(number)) for number in range(10 if split == "train" else 3))


def make(*, draws: int | None = None, **trainer: Any) -> tuple[Config, TaskSampler]:
    """Return a configuration of five steps of four tasks, and its tasks."""
    config = Config()
    algorithm = config.trainer_common.algorithm
    if draws is not None:
        algorithm = evolve(algorithm, filter_groups=evolve(algorithm.filter_groups, enable=True, max_num_gen_batches=draws))
    config = evolve(
        config,
        data=evolve(config.data, train_batch_size=4),
        rollout=evolve(config.rollout, num_repeat=2),
        trainer_common=evolve(config.trainer_common, algorithm=algorithm, **{"val_pass_n": 1, **trainer}),
    )
    return config, TaskSampler(Rows(), batch_size=4, epochs=1, seed=1, total_steps=STEPS)


@pytest.mark.parametrize(
    ("before", "every", "passes"),
    [(False, -1, 0), (True, -1, 2), (False, 2, 3), (True, 2, 4), (False, 5, 1), (True, 7, 2), (False, 1, 5)],
)
def test_the_validation_after_the_last_step_is_counted_once(before: bool, every: int, passes: int) -> None:
    assert count_validation_episodes(*make(val_before_train=before, test_freq=every)) == passes * 3


def test_each_validation_task_is_played_as_often_as_it_is_passed() -> None:
    assert count_validation_episodes(*make(val_before_train=False, test_freq=5, val_pass_n=4)) == 12


def test_without_a_filter_a_step_plays_its_batch() -> None:
    assert bound_training_episodes(*make()) == STEPS * 4 * 2


def test_a_greedy_sibling_is_one_more_of_each_task() -> None:
    assert bound_training_episodes(*make(draws=2), greedy=True) == STEPS * 8 * 3


@pytest.mark.parametrize(("draws", "tasks"), [(1, 4), (2, 8), (3, 10), (9, 10)])
def test_further_draws_are_counted_up_to_the_whole_split(draws: int, tasks: int) -> None:
    assert bound_training_episodes(*make(draws=draws)) == STEPS * tasks * 2
