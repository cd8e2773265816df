"""The values of a trainer are placed in the episodes that its rows came from."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.store.token_store import LARGEST
from astuner.runs.training.token_recorder import locate_values
from astuner.runs.training.token_values import STACKED, TokenValues
from astuner_devkit.episodes import episode, group, sample

SIBLINGS = group(episode(0), episode(1))
ROWS = [WeightedSample(sample=one.samples[0], advantage=2.0, group="g") for one in SIBLINGS.episodes]


def values(lengths: list[int], **columns: list[float]) -> TokenValues:
    made = TokenValues.from_stack(np.zeros((len(STACKED), sum(lengths))), lengths)
    return evolve(made, **{name: np.array(column, np.float32) for name, column in columns.items()})


def test_a_row_that_was_not_trained_leaves_its_episode_out() -> None:
    found = locate_values(4, [SIBLINGS], ROWS, values([0, 3]))
    assert (found.step, found.episodes) == (4, ("train/1/t/1",))
    assert found.columns.advantages.tolist() == [2.0] * 3


def test_tokens_of_a_row_may_have_different_advantages() -> None:
    row = evolve(ROWS[0], token_advantages=np.array([1.0, 0.0, -1.0]))
    assert locate_values(1, [SIBLINGS], [row], values([3])).columns.advantages.tolist() == [1, 0, -1]


def test_a_value_beyond_half_precision_is_the_largest_number() -> None:
    found = locate_values(1, [SIBLINGS], ROWS[:1], values([3], ratios=[1e8, -np.inf, np.nan]))
    np.testing.assert_array_equal(found.columns.ratios, np.array([LARGEST, -LARGEST, np.nan], np.float16))


def test_a_row_of_another_step_is_refused_by_its_episode() -> None:
    stray = WeightedSample(sample=sample("train/9/t/0"), advantage=1.0, group="g")
    with pytest.raises(ValueError, match="row 0: its sample of episode 'train/9/t/0' is not in the groups"):
        locate_values(1, [SIBLINGS], [stray], values([3]))


def test_values_of_more_tokens_than_the_row_trains_are_refused() -> None:
    with pytest.raises(ValueError, match="trains 3 tokens, and the trainer gave 4 values"):
        locate_values(1, [SIBLINGS], ROWS[:1], values([4]))
