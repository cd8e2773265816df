"""Who counts in rewards, success and pass@k."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve

from astuner.contract.schema import Episode, Failure, Group, Unjudged, Verdict
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import Grpo
from astuner.episodes.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner_devkit.episodes import episode, group


def failed(repeat: int, reason: str = "workflow_error", reward: float | None = None) -> Episode:
    verdict = None if reward is None else Verdict(reward, False, presumed=True)
    blank = evolve(episode(repeat), output=None, verdict=verdict, failures=(Failure(reason=reason),))
    return blank if reward is not None else evolve(blank, samples=())


def test_groups_in_which_every_episode_fails_are_in_every_mean() -> None:
    groups = [group(episode(0, 1.0, success=True), episode(1, 1.0, success=True)), group(failed(0), failed(1))]
    found = compute_validation_metrics(groups)
    assert (found["val/pass@1"], found["val/pass@2"], found["val/success/rate"]) == (0.5, 0.5, 0.5)
    assert (found["val/reward/mean"], found["val/reward/mean_completed"]) == (0.5, 1.0)


def test_a_failure_counts_with_its_own_reward() -> None:
    found = compute_validation_metrics([group(episode(0, 1.0, success=True), failed(1, "max_steps", -1.0))])
    assert (found["val/reward/mean"], found["val/pass@1"], found["val/failed/max_steps"]) == (0.0, 0.5, 1)


def unjudged(repeat: int, reason: str, reward: float | None = None) -> Episode:
    return evolve(episode(repeat, None), verdict=Unjudged(reason=reason, reward=reward))


def test_what_the_surroundings_or_those_of_the_judge_failed_says_nothing_about_the_model() -> None:
    lost = failed(1, "engine_lost")
    found = compute_validation_metrics([group(episode(0, 1.0, success=True), lost, unjudged(2, "judge_unavailable"))])
    assert (found["val/reward/mean"], found["val/pass@1"]) == (1.0, 1.0)
    assert (found["val/failed"], found["val/failed/engine_lost"], found["val/failed/judge_unavailable"]) == (2, 1, 1)
    assert (found["val/reward/count"], found["val/success/count"], found["val/episodes"]) == (1, 1, 3)
    assert "val/reward/mean_completed" not in found


@pytest.mark.parametrize("reason", ["judge_error", "bad_verdict", "judge_timeout", "abstained"])
def test_an_answer_on_which_the_judges_own_code_fails_is_no_success_and_counts_as_0(reason: str) -> None:
    groups = [group(episode(0, 1.0, success=True), unjudged(1, reason), unjudged(2, reason), unjudged(3, reason))]
    found = compute_validation_metrics(groups)
    assert (found["val/reward/mean"], found["val/success/rate"], found["val/pass@1"], found["val/pass@4"]) == (
        0.25,
        0.25,
        0.25,
        1,
    )
    assert (found["val/reward/mean_completed"], found["val/reward/count"], found[f"val/failed/{reason}"]) == (1.0, 4, 3)
    trained = compute_rollout_metrics(groups, [])
    assert (trained["success/rate"], trained["reward/mean"], trained["reward/count"]) == (0.25, 1.0, 1)


def test_a_judge_failure_with_a_reward_counts_with_it_and_is_trained() -> None:
    groups = [group(episode(0, 1.0, success=True), unjudged(1, "judge_error", -1.0))]
    rows = compute_advantages(groups, Grpo())
    assert [row.advantage for row in rows] == pytest.approx([0.7071, -0.7071], abs=1e-3)
    found = compute_rollout_metrics(groups, rows)
    assert (found["reward/mean"], found["success/rate"], found["signal/failed/judge_error"]) == (0.0, 0.5, 1)
    assert "signal/lost/judge_error" not in found


def test_pass_at_k_says_over_how_many_tasks() -> None:
    whole = group(episode(0, 1.0, success=True), episode(1, 0.0, success=False))
    cut = group(episode(0, 1.0, success=True), unjudged(1, "judge_unavailable"))
    found = compute_validation_metrics([whole, cut])
    assert (found["val/pass@1_tasks"], found["val/pass@2_tasks"], found["val/tasks"]) == (2, 1, 2)


def test_a_validation_in_which_every_episode_fails_solves_nothing() -> None:
    found = compute_validation_metrics([group(failed(0), failed(1, "context_full", 0.0), failed(2, "engine_lost"))])
    assert (found["val/success/rate"], found["val/pass@1"]) == (0.0, 0.0)


def test_what_only_the_surroundings_failed_leaves_success_unknown() -> None:
    found = compute_validation_metrics([group(failed(0, "engine_lost"), failed(1, "environment_error"))])
    assert not [name for name in found if "success" in name or "pass@" in name]


def test_success_that_nobody_judged_stays_unknown() -> None:
    found = compute_validation_metrics([group(episode(0, 0.5), failed(1), failed(2, "max_steps", 0.0))])
    assert not [name for name in found if "success" in name or "pass@" in name]


def test_the_success_rate_of_training_counts_failures_of_the_model() -> None:
    groups = [group(episode(0, 1.0, success=True), failed(1), failed(2, "max_steps", 0.0), failed(3, "engine_lost"))]
    found = compute_rollout_metrics(groups, [])
    assert found["success/rate"] == pytest.approx(1 / 3)
    assert (found["signal/lost/workflow_error"], found["signal/failed/max_steps"]) == (1, 1)
    assert "signal/lost/max_steps" not in found


def test_calls_and_tokens_of_every_attempt_are_counted() -> None:
    again = Failure(reason="engine_lost", retried=True, calls=3, tokens=40)
    once, twice = episode(0, 0.0), evolve(episode(1, 1.0), failures=(again,))
    [alone, both] = [compute_rollout_metrics([group(once, other)], []) for other in (episode(1, 1.0), twice)]
    assert (alone["signal/retries"], both["signal/retries"], both["signal/retries/engine_lost"]) == (0, 1, 1)
    assert both["signal/calls"] - alone["signal/calls"] == 3
    assert both["tokens/generated"] - alone["tokens/generated"] == 40
    assert both["signal/lost/tokens_retried"] == 40


@pytest.mark.parametrize("split", ["train", "validation"])
def test_the_mean_of_a_component_says_of_how_many_unless_it_is_of_all(split: str) -> None:
    judged = [Verdict(1.0, components={"form": 1.0, "style": 0.5}), Verdict(0.0, components={"form": 0.0})]
    whole = group(*(evolve(episode(number), verdict=verdict) for number, verdict in enumerate(judged)))

    def compute(played: Group) -> Mapping[str, float]:
        return compute_rollout_metrics([played], []) if split == "train" else compute_validation_metrics([played])

    prefix = "" if split == "train" else "val/"
    assert f"{prefix}reward/form/count" not in compute(whole)
    assert (compute(whole)[f"{prefix}reward/style"], compute(whole)[f"{prefix}reward/style/count"]) == (0.5, 1.0)
    assert compute(group(*whole.episodes, failed(2)))[f"{prefix}reward/form/count"] == 2.0


@pytest.mark.parametrize("name", ["mean", "std", "count", "mean_completed", "mean_kept", "solver/mean"])
def test_a_component_never_replaces_a_number_of_core(name: str) -> None:
    one, two = (
        evolve(
            made,
            verdict=Verdict(0.25, components={name: 7.0, "style": 0.5}),
            samples=tuple(evolve(row, agent=agent) for row in made.samples for agent in ("solver", "helper")),
        )
        for made in (episode(0), episode(1))
    )
    found = compute_rollout_metrics([group(one, two)], [])
    assert (found["reward/mean"], found["reward/std"], found["reward/solver/mean"]) == (0.25, 0.0, 0.25)
    assert (found[f"reward/component/{name}"], found["reward/style"]) == (7.0, 0.5)


def test_groups_that_the_filter_leaves_out_are_played_but_not_trained() -> None:
    kept, dead = (
        group(episode(0, 1.0, success=True), episode(1, 0.0, success=False)),
        group(*(episode(i, 0.0, success=False) for i in range(2))),
    )
    rows = compute_advantages([kept], Grpo())
    found = compute_rollout_metrics([kept], rows, left_out=[dead])
    assert (found["reward/mean"], found["reward/mean_kept"]) == (0.25, 0.5)
    assert (found["success/rate"], found["success/rate_kept"]) == (0.25, 0.5)
    assert (found["signal/episodes"], found["signal/groups"], found["signal/calls"]) == (4, 1, 4)
    left_out = sum(row.trained for one in dead.episodes for row in one.samples)
    assert found["signal/lost/tokens_filtered"] == left_out
    assert found["tokens/generated"] == found["signal/tokens_trainable"] + left_out
