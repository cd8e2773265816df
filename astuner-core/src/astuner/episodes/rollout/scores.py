"""Rewards and success of episodes: who counts, and as what.

An episode that fails through what the model did counts as no success, and so does one on whose answer the judge's own code fails.
One that its surroundings failed, or the judge's, says nothing about the model: it is left out, and counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import comb

import numpy as np

from astuner.contract.schema import Episode, Group, Unjudged, Verdict
from astuner.episodes.judging.advantages import list_trained_agents
from astuner.episodes.rollout.episode_failures import OWN


def compute_reward_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return mean, spread and components of rewards, success, and each agent's mean reward if several are trained.

    The mean of a component that not all episodes have says of how many it is.
    """
    metrics = _compute_reward_spread([episode.reward for episode in episodes if episode.reward is not None])
    successes = find_successes(episodes) if knows_success(episodes) else []
    if successes:
        metrics |= _compute_success_rate(successes)
    rewarded = [episode for episode in episodes if episode.reward is not None]
    agents = {agent for episode in rewarded for agent in list_trained_agents(episode)}
    if len(agents) > 1:
        metrics |= compute_means(
            "reward", ({f"{agent}/mean": e.reward_of(agent) for agent in list_trained_agents(e)} for e in rewarded)
        )
    components = [e.verdict.components for e in episodes if isinstance(e.verdict, Verdict)]
    counts = Counter(name for found in components for name in found)
    taken = {*metrics, "reward/mean", "reward/std", "reward/count", "reward/mean_completed", "reward/mean_kept"}
    for name, mean in compute_means("", components).items():
        shown, count = f"reward/component{name}" if f"reward{name}" in taken else f"reward{name}", counts[name[1:]]
        metrics |= {shown: mean, **({f"{shown}/count": float(count)} if count < len(episodes) else {})}
    return metrics


def compute_scores(groups: Sequence[Group], *, known: bool) -> dict[str, float]:
    """Return rewards, success and pass@k of a validation; `known`: whether its success is known at all.

    Failures of the model without a reward count as 0. pass@k is the unbiased estimate of Chen et al. 2021
    (arXiv 2107.03374).
    """
    episodes = [episode for group in groups for episode in group.episodes]
    metrics = compute_reward_metrics(episodes)
    rewards = [reward for episode in episodes if (reward := _find_reward(episode)) is not None]
    metrics |= _compute_reward_spread(rewards)
    completed = [e.verdict.reward for e in episodes if e.completed and isinstance(e.verdict, Verdict)]
    if completed and len(completed) < len(rewards):
        metrics["reward/mean_completed"] = float(np.mean(completed))
    metrics = {name: value for name, value in metrics.items() if not name.startswith("success/")} | {"tasks": float(len(groups))}
    if not known:
        return metrics
    decided = [successes for group in groups if (successes := find_successes(group.episodes))]
    if decided:
        metrics |= _compute_success_rate([success for successes in decided for success in successes])
    for k in sorted({1, max((len(group.episodes) for group in groups), default=1)}):
        estimates = [_estimate_pass_at_k(successes, k) for successes in decided if len(successes) >= k]
        if estimates:
            metrics |= {f"pass@{k}": sum(estimates) / len(estimates), f"pass@{k}_tasks": float(len(estimates))}
    return metrics


def knows_success(episodes: Iterable[Episode]) -> bool:
    """Whether success means anything: somebody judged it, or every episode failed before anybody could judge it."""
    judged = [e for e in episodes if isinstance(e.verdict, Verdict) and not e.verdict.presumed]
    return not judged or any(episode.is_success is not None for episode in judged)


def find_successes(episodes: Iterable[Episode]) -> list[bool]:
    """Return the success of each episode that counts."""
    return [bool(episode.is_success) for episode in episodes if episode.is_success is not None or _failed_itself(episode)]


def count_failures(episodes: Iterable[Episode]) -> Counter[str]:
    """Count the episodes that failed or were not judged, by reason."""
    reasons = (_find_failure(episode) for episode in episodes)
    return Counter(reason for reason in reasons if reason is not None)


def compute_means(prefix: str, mappings: Iterable[Mapping[str, object]]) -> dict[str, float]:
    """Return the mean of each key over the mappings that have it, as `prefix/key`."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for mapping in mappings:
        for name, value in mapping.items():
            values[f"{prefix}/{name}"].append(float(value))  # type: ignore[arg-type]  # numbers, by the schema
    return {name: sum(found) / len(found) for name, found in sorted(values.items())}


def _find_failure(episode: Episode) -> str | None:
    if not episode.completed:
        return episode.failures[-1].reason if episode.failures else "failed"
    if isinstance(episode.verdict, Unjudged):
        return episode.verdict.reason
    return None if episode.reward is not None else "no_verdict"


def _failed_itself(episode: Episode) -> bool:
    if isinstance(episode.verdict, Unjudged):
        return episode.verdict.by_answer
    return not episode.completed and bool(episode.failures) and episode.failures[-1].reason in OWN


def _find_reward(episode: Episode) -> float | None:
    return 0.0 if episode.reward is None and _failed_itself(episode) else episode.reward


def _compute_reward_spread(rewards: Sequence[float]) -> dict[str, float]:
    if not rewards:
        return {}
    return {"reward/mean": float(np.mean(rewards)), "reward/std": float(np.std(rewards)), "reward/count": float(len(rewards))}


def _compute_success_rate(successes: Sequence[bool]) -> dict[str, float]:
    return {"success/rate": sum(successes) / len(successes), "success/count": float(len(successes))}


def _estimate_pass_at_k(successes: Sequence[bool], k: int) -> float:
    n = len(successes)
    return 1.0 - comb(n - sum(successes), k) / comb(n, k)
