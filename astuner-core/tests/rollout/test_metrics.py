from __future__ import annotations

import pytest
from attrs import evolve

from astuner.contract.schema import Failure
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import Grpo
from astuner.episodes.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner_devkit.episodes import episode, group


def cut_in_reasoning(found, **changes):
    return evolve(found, calls=(evolve(found.calls[0], reply={"content": "", "cut_reasoning": True}, **changes),))


def test_reasoning_that_was_cut_off_is_counted_in_validations_too_unless_the_agent_is_frozen():
    frozen = cut_in_reasoning(episode(1), untrained="frozen_agent")
    found = compute_validation_metrics([group(cut_in_reasoning(episode(0)), frozen, episode(2))])
    assert found["val/cut_reasoning"] == 1


def test_the_waterfall_counts_every_loss_with_its_reason():
    failed = evolve(
        episode(2), output=None, samples=(), verdict=None, untrained={"failed": 5}, failures=(Failure(reason="timeout"),)
    )
    groups = [group(episode(0, 0.0), cut_in_reasoning(episode(1, 1.0)), failed, episode(3, None))]
    found = compute_rollout_metrics(groups, compute_advantages(groups, Grpo()))
    assert {k: v for k, v in found.items() if k.startswith("signal/")} == {
        "signal/calls": 4,
        "signal/episodes": 4,
        "signal/episodes_rewarded": 2,
        "signal/retries": 0,
        "signal/samples": 2,
        "signal/tokens_trainable": 6,
        "signal/tokens_nonzero_advantage": 6,
        "signal/branches": 0,
        "signal/cut_reasoning": 1,
        "signal/groups": 1,
        "signal/groups_without_signal": 0,
        "signal/lost/timeout": 1,
        "signal/lost/judge_error": 1,
        "signal/lost/tokens_failed": 5,
    }


def test_metrics_of_workflows_are_averaged():
    groups = [group(episode(0), episode(1))]
    assert compute_rollout_metrics(groups, [])["workflow/turns"] == 2


def test_pass_at_k_is_the_unbiased_estimate():
    groups = [
        group(*(episode(i, 0.0, success=i == 0) for i in range(4))),
        group(*(episode(i, 0.0, success=False) for i in range(4))),
    ]
    found = compute_validation_metrics(groups)
    assert (found["val/pass@1"], found["val/pass@4"]) == (pytest.approx(0.125), pytest.approx(0.5))


def test_a_failed_validation_episode_is_counted_and_did_not_succeed():
    failed = evolve(episode(1), output=None, verdict=None, failures=(Failure(reason="timeout"),))
    found = compute_validation_metrics([group(episode(0, 1.0, success=True), failed)])
    assert (found["val/failed"], found["val/failed/timeout"], found["val/pass@1"]) == (1, 1, 0.5)
    assert (found["val/reward/mean"], found["val/reward/mean_completed"]) == (0.5, 1.0)


def test_several_sources_of_validation_tasks_have_numbers_of_their_own():
    def from_source(source, *episodes):
        made = group(*episodes)
        return evolve(made, task=evolve(made.task, metadata={"data_source": source}))

    groups = [
        from_source("gsm8k", episode(0, 1.0, success=True), episode(1, 0.0, success=False)),
        from_source("math", episode(0, 1.0, success=True), episode(1, 1.0, success=True)),
    ]
    found = compute_validation_metrics(groups)
    names = (
        "val/reward/mean",
        "val/gsm8k/reward/mean",
        "val/math/reward/mean",
        "val/pass@1",
        "val/gsm8k/pass@1",
        "val/math/pass@2",
    )
    assert [found[name] for name in names] == [0.75, 0.5, 1.0, 0.75, 0.5, 1.0]
    assert "val/gsm8k/pass@1" not in compute_validation_metrics(groups[:1])
