"""The values of passes become those of a step's rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from astuner.runs.training.token_values import STACKED, TokenValues, join_passes


def values(*logprobs: float, lengths: list[int], clips: list[int] | None = None) -> TokenValues:
    stack = np.zeros((len(STACKED), len(logprobs)))
    stack[0] = logprobs
    stack[STACKED.index("ref_kl")] = 0.1
    stack[STACKED.index("clips")] = clips or [0] * len(logprobs)
    return TokenValues.from_stack(stack, lengths)


def test_rows_come_in_the_order_of_the_step_whatever_the_order_of_the_passes() -> None:
    joined = join_passes([([2, 0], values(-3, -4, -1, lengths=[2, 1])), ([3], values(-9, lengths=[1]))], rows=5)
    assert joined.lengths.tolist() == [1, 0, 2, 1, 0]
    assert joined.logprobs.tolist() == [-1, -3, -4, -9]
    assert joined.ref_kl.tolist() == pytest.approx([0.1] * 4)


def test_of_a_row_in_several_passes_the_first_counts_and_it_is_clipped_as_in_all() -> None:
    passes = [([0], values(-1, -2, -5, lengths=[3], clips=[0, 1, 1])), ([0], values(-7, -8, -9, lengths=[3], clips=[2, 0, 3]))]
    joined = join_passes(passes, rows=1)
    assert (joined.logprobs.tolist(), joined.clips.tolist()) == ([-1, -2, -5], [2, 1, 3])


def test_no_pass_has_no_values() -> None:
    assert join_passes([], rows=3) is None


def test_values_that_do_not_fit_the_rows_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"logprobs has the shape \(2,\); the rows have 3 trained tokens"):
        values(-1, -2, lengths=[3])


def test_a_value_that_a_trainer_does_not_have_stays_missing() -> None:
    stack = np.full((len(STACKED), 1), math.nan)
    stack[-1] = 0
    assert math.isnan(TokenValues.from_stack(stack, [1]).reference_logprobs[0])
