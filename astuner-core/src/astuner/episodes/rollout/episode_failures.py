"""Why an episode failed, whether it is played again, and what it is worth.

What the model writes can fail an episode. Played again with other random numbers, such an episode would be replaced by a
luckier one, and every mean would be one over the lucky. So only what the model cannot cause is played again, and with the same
random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, fields_dict

from astuner.contract.errors import ProgramTimeout
from astuner.contract.schema import Call, Episode, Failure, Group, Unjudged, Verdict
from astuner.episodes.containment.surroundings import find_surroundings_failure
from astuner.episodes.containment.tracebacks import RaisedAt, locate_error
from astuner.settings.config.rollout import FailureRewards

SURROUNDINGS = frozenset({"environment_error", "engine_lost", "connection_lost", "service_unavailable"})
"""Reasons that the model did not cause: the episode is played again."""
OWN = frozenset(fields_dict(FailureRewards))
"""Reasons that the model's text can cause: final, and worth what `rollout.failure_rewards` says."""


class FirstMessagesTooLong(Exception):
    """The conversation leaves no room for a first answer."""


def classify_error(error: Exception, *, of_calls: str | None, in_worker: str | None = None) -> str:
    """Return the reason for the failure of a workflow that raised this error.

    `of_calls` is the failure of a model call that the workflow has not recovered from, and `in_worker` what
    `find_surroundings_failure` found in the worker's process, which sends errors as text.
    """
    found = in_worker or find_surroundings_failure(error)
    # A client turns what the gateway answers into errors of its own, so the gateway knows better than its connection error.
    if found == "service_unavailable":
        return found
    return of_calls or found or ("timeout" if isinstance(error, ProgramTimeout) else "workflow_error")


def classify_environment_error(error: Exception, *, method: str) -> str:
    """Return the reason for the failure of an environment in one of its methods; `""` if it could not be made.

    The action, and whatever state earlier ones have brought about, can make `step` and `evaluate` raise.
    """
    if method in ("", "reset") or find_surroundings_failure(error) is not None:
        return "environment_error"
    return "workflow_error"


def make_failure(reason: str, error: BaseException, detail: str, *, at: RaisedAt | None = None) -> Failure:
    """Return the failure of an episode whose code raised an error, with the traceback; `at` is that of another process."""
    at = at or locate_error(error)
    return Failure(reason=reason, detail=detail, place=at.place, traceback=at.traceback)


def count_attempt(failure: Failure, calls: Sequence[Call]) -> Failure:
    """Return the failure with the calls and tokens of its attempt."""
    return evolve(failure, calls=len(calls), tokens=sum(len(call.output_ids) for call in calls))


def make_failure_verdict(reason: str, rewards: FailureRewards) -> Verdict | None:
    """Return the verdict that `rollout.failure_rewards` gives to a failed episode; None leaves it out of its group."""
    rewards_by_reason = {
        "context_full": rewards.context_full,
        "max_steps": rewards.max_steps,
        "timeout": rewards.timeout,
        "workflow_error": rewards.workflow_error,
    }
    reward = rewards_by_reason.get(reason)
    if reward is None:
        return None
    return Verdict(reward, False, rationale=f"rollout.failure_rewards.{reason}: no judge saw the episode", presumed=True)


def describe_rewarding_failures(groups: Sequence[Group]) -> dict[str, str]:
    """Return a notice for each key of `rollout.failure_rewards` that gives more than the lowest reward of a completed episode."""
    episodes = [episode for group in groups for episode in group.episodes]
    judged = [episode.verdict for episode in episodes if episode.completed]
    lowest = min((verdict.reward for verdict in judged if isinstance(verdict, Verdict)), default=None)
    if lowest is None:
        return {}
    worth = {episode.failures[-1].reason: episode.reward for episode in episodes if _failed_with_reward(episode)}
    of_judge = next((one.reward for one in judged if isinstance(one, Unjudged) and one.reward is not None), None)
    worth |= {} if of_judge is None else {"judge_error": of_judge}
    return {
        f"rollout.failure_rewards.{reason}": (
            f"rollout.failure_rewards.{reason}: an episode that fails for this reason gets {reward:g}, and a completed one got "
            f"{lowest:g}. The model can learn to fail instead of answering. Set this key to the lowest reward that you give."
        )
        for reason, reward in sorted(worth.items())
        if reward is not None and reward > lowest
    }


def _failed_with_reward(episode: Episode) -> bool:
    return not episode.completed and isinstance(episode.verdict, Verdict) and bool(episode.failures)
