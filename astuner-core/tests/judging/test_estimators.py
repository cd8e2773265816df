from __future__ import annotations

import numpy as np
import pytest

from astuner.judging.estimators import DrGrpo, Grpo, ReinforcePlusPlus, Rloo


def test_grpo_divides_by_the_unbiased_std_of_the_group():
    (found,) = Grpo().advantages([np.array([0.0, 0.0, 1.0, 1.0])])
    assert found == pytest.approx(np.array([-1, -1, 1, 1]) * 0.5 / (np.sqrt(1 / 3) + 1e-6))


def test_grpo_without_std_only_centres():
    (found,) = Grpo(norm_by_std=False).advantages([np.array([0.0, 1.0])])
    assert found.tolist() == [-0.5, 0.5]


def test_equal_rewards_give_no_advantage():
    for estimator in (Grpo(), DrGrpo(), Rloo(), ReinforcePlusPlus()):
        (found,) = estimator.advantages([np.array([0.7, 0.7, 0.7])])
        assert found == pytest.approx(np.zeros(3), abs=1e-9)


def test_a_lone_survivor_has_nobody_to_be_compared_with():
    for estimator in (Grpo(), DrGrpo(), Rloo()):
        assert estimator.advantages([np.array([5.0])])[0].tolist() == [0.0]


def test_dr_grpo_keeps_the_scale_of_the_rewards():
    assert DrGrpo().advantages([np.array([0.0, 10.0])])[0].tolist() == [-5.0, 5.0]


def test_rloo_compares_each_with_the_mean_of_the_others():
    (found,) = Rloo().advantages([np.array([0.0, 1.0, 5.0])])
    assert found == pytest.approx([0 - 3.0, 1 - 2.5, 5 - 0.5])


def test_reinforce_plus_plus_normalises_over_the_step():
    groups = [np.array([0.0, 0.0]), np.array([1.0, 3.0])]
    everything = np.concatenate(groups)
    found = np.concatenate(ReinforcePlusPlus().advantages(groups))
    assert found == pytest.approx((everything - 1.0) / (everything.std(ddof=1) + 1e-6))


def test_no_groups_give_no_advantages():
    assert list(ReinforcePlusPlus().advantages([])) == []
