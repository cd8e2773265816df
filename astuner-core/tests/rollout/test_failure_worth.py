"""A failure that is worth more than a wrong answer teaches the model to fail: the run warns."""

from __future__ import annotations

import pytest
from attrs import evolve

from astuner.contract.schema import Episode, Failure, Verdict
from astuner.episodes.rollout.episode_failures import describe_rewarding_failures
from astuner_devkit.episodes import episode, group


def fail(repeat: int, reward: float, reason: str = "max_steps") -> Episode:
    verdict = Verdict(reward, False, presumed=True)
    return evolve(episode(repeat), output=None, verdict=verdict, failures=(Failure(reason=reason),))


def test_a_failure_worth_more_than_a_wrong_answer_is_reported_with_its_key_and_both_rewards() -> None:
    groups = [group(episode(0, 1.0), episode(1, -1.0)), group(episode(0, 1.0), fail(1, 0.0))]
    [(key, text)] = describe_rewarding_failures(groups).items()
    assert key == "rollout.failure_rewards.max_steps"
    assert text.startswith(
        "rollout.failure_rewards.max_steps: an episode that fails for this reason gets 0, and a completed one got -1."
    )


def test_each_reason_has_its_own_notice() -> None:
    groups = [group(episode(0, -1.0), fail(1, 0.0), fail(2, -1.0, "timeout"), fail(3, 0.5, "context_full"))]
    assert list(describe_rewarding_failures(groups)) == [
        "rollout.failure_rewards.context_full",
        "rollout.failure_rewards.max_steps",
    ]


@pytest.mark.parametrize(
    "episodes",
    [
        (episode(0, 0.0), episode(1, 1.0), fail(2, 0.0)),
        (episode(0, 0.5), fail(1, 0.0)),
        (fail(0, 0.0), fail(1, -1.0, "timeout")),
        (episode(0, -1.0), episode(1, None)),
    ],
)
def test_a_failure_worth_no_more_than_any_answer_is_no_news(episodes: tuple[Episode, ...]) -> None:
    assert describe_rewarding_failures([group(*episodes)]) == {}
