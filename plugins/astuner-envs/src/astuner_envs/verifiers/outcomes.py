"""From a finished episode of `verifiers` to the output of a workflow, or to the error that ended it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from astuner.contract.errors import ServiceUnavailable
from astuner.contract.plain_values import make_plain
from astuner.contract.schema import WorkflowOutput

SURROUNDINGS = frozenset({"SandboxError", "InterceptionError", "TunnelError"})
"""Errors of `verifiers` that name what runs around the agent; what the model writes does not cause them."""


class EpisodeFailed(Exception):
    """The rollout or its scoring failed; the text names the part that did."""


def raise_failure(episode: Any, name: str) -> None:
    """Raise the error that ended an episode, if one did; `name` is the environment's."""
    if episode.ok:
        return
    errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    if not errors:
        raise EpisodeFailed(f"environment '{name}' did not finish the episode, without an error")
    # The episode's own errors come after those of the agents that it waited for.
    last = next((error for error in errors if error.type not in ("EnvError", "HarnessError")), errors[0])
    text = f"environment '{name}': {last.type}: {last.message.strip()}"
    if last.type in SURROUNDINGS:
        raise ServiceUnavailable(text)
    raise EpisodeFailed(text)


def collect_output(episode: Any, success_reward: float | None) -> WorkflowOutput:
    """Return the rewards of the trained agents, and every reward and metric by name.

    An agent that played several times is rewarded with the mean. Without any reward there is none: it is left to a judge.
    """
    trained = [trace for trace in episode.traces if trace.agent.trainable]
    rewards: dict[str, list[float]] = defaultdict(list)
    for trace in trained:
        if any(reward is not None for reward in trace.rewards.values()):
            rewards[trace.agent.name].append(trace.reward)
    by_role = {role: sum(found) / len(found) for role, found in rewards.items()}
    mean = sum(by_role.values()) / len(by_role) if by_role else None
    return WorkflowOutput(
        reward=by_role if len(by_role) > 1 else mean,
        is_success=None if mean is None or success_reward is None else mean >= success_reward,
        metadata=_describe_episode(trained or episode.traces),
        log_metrics=_average(_list_numbers(episode.traces)),
    )


def _describe_episode(traces: Any) -> Mapping[str, Any]:
    last = traces[-1]
    return {
        "final_answer": last.last_reply,
        "stop_condition": last.stop_condition,
        "is_truncated": last.is_truncated,
        "info": make_plain(last.info).value,
    }


def _list_numbers(traces: Any) -> Iterator[tuple[str, float]]:
    """Yield the unweighted rewards and the metrics; of several roles, under the role's name."""
    several = len({trace.agent.name for trace in traces}) > 1
    for trace in traces:
        prefix = f"{trace.agent.name}/" if several else ""
        for name, reward in trace.rewards.items():
            if reward is not None:
                yield f"{prefix}reward/{name}", reward.score
        for name, value in trace.metrics.items():
            if value is not None:
                yield f"{prefix}metric/{name}", value
        yield f"{prefix}turns", float(trace.num_turns)


def _average(numbers: Iterator[tuple[str, float]]) -> Mapping[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for name, value in numbers:
        found[name].append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}
