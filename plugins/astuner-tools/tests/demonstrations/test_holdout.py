from __future__ import annotations

import pytest

from astuner.contract.errors import UsageError
from astuner_tools.demonstrations.holdout import split_holdout


def test_a_tenth_is_held_out_and_both_parts_keep_their_order() -> None:
    kept, held_out = split_holdout(range(20), 0.1, seed=3)
    assert (len(kept), len(held_out)) == (18, 2)
    assert kept == sorted(kept)
    assert sorted([*kept, *held_out]) == list(range(20))


def test_the_same_seed_holds_out_the_same() -> None:
    assert split_holdout(range(20), 0.2, seed=3) == split_holdout(range(20), 0.2, seed=3)


def test_a_small_share_holds_out_one_and_0_none() -> None:
    assert len(split_holdout(range(4), 0.01, seed=0)[1]) == 1
    assert split_holdout(range(4), 0.0, seed=0) == ([0, 1, 2, 3], [])


def test_holding_out_everything_is_refused() -> None:
    with pytest.raises(UsageError, match="of 1 demonstration none is left to train"):
        split_holdout([1], 0.1, seed=0)
