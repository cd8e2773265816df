"""Numbers of a step's groups: rewards, the waterfall of the training signal, validation; the same for every backbone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import comb

import numpy as np

from astuner.judging.advantages import WeightedSample, has_no_signal, list_trained_agents
from astuner.schema import Episode, Group, Unjudged, Verdict
from astuner.token_streams import find_leaves, index_calls, stream_length


def compute_rollout_metrics(
    groups: Sequence[Group], rows: Sequence[WeightedSample], *, by_agent: bool = True
) -> dict[str, float]:
    """Return `reward/…`, `success/rate`, `madness/…`, `workflow/…`, `tokens/…` and the waterfall `signal/…` of a training step.

    `by_agent` is that of `compute_advantages`.
    """
    episodes = [episode for group in groups for episode in group.episodes]
    outputs = (episode.output.log_metrics for episode in episodes if episode.output is not None)
    metrics = {**compute_reward_metrics(episodes), **compute_madness_metrics(episodes), **_compute_means("workflow", outputs)}
    trainable = [row for row in rows if row.sample.trained]
    metrics |= {
        "tokens/generated": float(sum(len(call.output_ids) for episode in episodes for call in episode.calls)),
        "signal/calls": float(sum(len(episode.calls) for episode in episodes)),
        "signal/episodes": float(len(episodes)),
        "signal/episodes_rewarded": float(sum(episode.reward is not None for episode in episodes)),
        "signal/samples": float(len(rows)),
        "signal/tokens_trainable": float(sum(row.sample.trained for row in trainable)),
        "signal/tokens_nonzero_advantage": float(sum(row.sample.trained for row in trainable if row.advantage != 0.0)),
        "signal/branches": float(sum(map(count_branches, episodes))),
        "signal/groups": float(len(groups)),
        "signal/groups_without_signal": float(sum(has_no_signal(group, by_agent=by_agent) for group in groups)),
    }
    metrics |= _compute_staleness(episodes)
    return metrics | {f"signal/lost/{reason}": float(count) for reason, count in sorted(count_lost(episodes).items())}


def _compute_staleness(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return by how many updates the sampling weights lag behind those at the step's start, over the tokens of all calls."""
    lags: Counter[int] = Counter()
    for episode in episodes:
        for call in episode.calls:
            ends = [span.start for span in call.weights[1:]] + [len(call.output_ids)]
            for span, end in zip(call.weights, ends, strict=False):
                lags[max(0, episode.step - 1 - span.version)] += end - span.start
    tokens = lags.total()
    if not tokens:
        return {}
    mean = sum(lag * count for lag, count in lags.items()) / tokens
    return {"staleness/mean": mean, "staleness/max": float(max(lag for lag, count in lags.items() if count))}


def count_branches(episode: Episode) -> int:
    """Count the paths of the token tree beyond one per agent."""
    # Calls through an engine without token ids have no place in the tree.
    calls = index_calls([call for call in episode.calls if stream_length(call)])
    return len(find_leaves(calls)) - len({call.agent for call in calls.values()})


def count_lost(episodes: Iterable[Episode]) -> Counter[str]:
    """Count what was lost: episodes that failed or were not judged, by reason, and tokens as `tokens_<reason>`."""
    found: Counter[str] = Counter()
    for episode in episodes:
        if not episode.completed and episode.failures:
            found[episode.failures[-1].reason] += 1
        elif isinstance(episode.verdict, Unjudged):
            found[episode.verdict.reason] += 1
        elif not any(sample.trained for sample in episode.samples):
            found["nothing_to_train"] += 1
        for reason, count in episode.untrained.items():
            found[f"tokens_{reason}"] += count
    return found


def compute_reward_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return mean, spread, success and components of the rewarded episodes, and each agent's mean where several are trained."""
    rewards = np.array([episode.reward for episode in episodes if episode.reward is not None], dtype=np.float64)
    successes = [episode.is_success for episode in episodes if episode.is_success is not None] if _knows_success(episodes) else []
    metrics: dict[str, float] = {}
    if rewards.size:
        metrics["reward/mean"] = float(rewards.mean())
        metrics["reward/std"] = float(rewards.std())
    if successes:
        metrics["success/rate"] = sum(successes) / len(successes)
    metrics |= _compute_means("reward", (e.verdict.components for e in episodes if isinstance(e.verdict, Verdict)))
    per_agent = [
        {f"{agent}/mean": e.reward_of(agent) for agent in list_trained_agents(e)} for e in episodes if e.reward is not None
    ]
    several = len({name for means in per_agent for name in means}) > 1
    return metrics | (_compute_means("reward", per_agent) if several else {})


def compute_madness_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return, for each detector of abnormal behaviour, the share of the episodes it watched in which it found something."""
    return _compute_means("madness", ({name: bool(found) for name, found in episode.findings.items()} for episode in episodes))


def _knows_success(episodes: Iterable[Episode]) -> bool:
    """Whether success is reported at all: an abnormal episode counts as failed only where others can succeed."""
    return any(episode.is_success is not None and not episode.abnormal for episode in episodes)


def _compute_means(prefix: str, mappings: Iterable[object]) -> dict[str, float]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for mapping in mappings:
        for name, value in dict(mapping).items():  # type: ignore[call-overload]  # Mapping[str, float] by the schema
            values[f"{prefix}/{name}"].append(float(value))
    return {name: sum(found) / len(found) for name, found in sorted(values.items())}


def compute_validation_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return the `val/…` numbers of a validation pass; pass@k is the unbiased estimate of Chen et al. 2021 (arXiv 2107.03374).

    Where tasks name several sources in their metadata (`data_source`), each has its own numbers: `val/{source}/pass@1`.
    """
    episodes = [episode for group in groups for episode in group.episodes]
    metrics = {f"val/{name}": value for name, value in compute_madness_metrics(episodes).items()}
    metrics |= {f"val/{name}": value for name, value in _compute_scores(groups).items()}
    metrics["val/episodes"] = float(len(episodes))
    metrics["val/failed"] = float(sum(episode.reward is None for episode in episodes))
    sources: dict[str, list[Group]] = {}
    for group in groups:
        sources.setdefault(str(group.task.metadata.get("data_source", "")), []).append(group)
    if len(sources) > 1:
        for source, own in sources.items():
            metrics |= {f"val/{source or 'other'}/{name}": value for name, value in _compute_scores(own).items()}
    return metrics


def _compute_scores(groups: Sequence[Group]) -> dict[str, float]:
    """Return rewards, success and pass@k."""
    metrics = dict(compute_reward_metrics([episode for group in groups for episode in group.episodes]))
    repeats = max((len(group.episodes) for group in groups), default=0)
    for k in sorted({1, repeats} - {0}):
        estimates = [_estimate_pass_at_k(group, k) for group in groups]
        known = [estimate for estimate in estimates if estimate is not None]
        if known:
            metrics[f"pass@{k}"] = sum(known) / len(known)
    return metrics


def _estimate_pass_at_k(group: Group, k: int) -> float | None:
    """Return the chance that one of k episodes succeeds; a failed episode counts as one that did not."""
    if not _knows_success(group.episodes):
        return None
    n, successes = len(group.episodes), sum(bool(episode.is_success) for episode in group.episodes)
    return 1.0 - comb(n - successes, k) / comb(n, k) if n >= k else None
