"""Numbers of a step's groups: rewards, the waterfall of the training signal, validation; the same for every backbone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from astuner.contract.schema import Episode, Group, Unjudged
from astuner.contract.token_streams import find_leaves, index_calls, stream_length
from astuner.episodes.judging.advantages import WeightedSample
from astuner.episodes.rollout.scores import compute_means, compute_reward_metrics, compute_scores, count_failures, knows_success


def compute_rollout_metrics(
    groups: Sequence[Group], rows: Sequence[WeightedSample], *, left_out: Sequence[Group] = ()
) -> dict[str, float]:
    """Return `reward/…`, `success/rate`, `madness/…`, `workflow/…`, `tokens/…` and the waterfall `signal/…` of a training step.

    `groups` are trained; `left_out` were played and left out by `filter_groups`. Rewards, success, episodes, calls and
    tokens are those of both; `reward/mean_kept` and `success/rate_kept` are those of the trained ones, if others were left
    out.
    """
    kept = [episode for group in groups for episode in group.episodes]
    spare = [episode for group in left_out for episode in group.episodes]
    episodes = [*kept, *spare]
    outputs = (episode.output.log_metrics for episode in episodes if episode.output is not None)
    metrics = {**compute_reward_metrics(episodes), **compute_madness_metrics(episodes), **compute_means("workflow", outputs)}
    if spare:
        found = compute_reward_metrics(kept)
        metrics |= {f"{name}_kept": found[name] for name in ("reward/mean", "success/rate") if name in found}
    trainable = [row for row in rows if row.sample.trained]
    again = [failure for episode in episodes for failure in episode.failures if failure.retried]
    generated = sum(len(call.output_ids) for episode in episodes for call in episode.calls)
    metrics |= {
        "tokens/generated": float(generated + sum(failure.tokens for failure in again)),
        "signal/calls": float(sum(len(episode.calls) for episode in episodes) + sum(failure.calls for failure in again)),
        "signal/episodes": float(len(episodes)),
        "signal/episodes_rewarded": float(sum(episode.reward is not None for episode in episodes)),
        "signal/retries": float(len(again)),
        "signal/samples": float(len(rows)),
        "signal/tokens_trainable": float(sum(row.sample.trained for row in trainable)),
        "signal/tokens_nonzero_advantage": float(sum(row.live_tokens for row in rows)),
        "signal/branches": float(sum(map(count_branches, episodes))),
        "signal/cut_reasoning": float(sum(map(is_cut_in_reasoning, episodes))),
        "signal/groups": float(len(groups)),
        "signal/groups_without_signal": float(len(groups) - len({row.group for row in rows if row.live_tokens})),
    }
    metrics |= _compute_staleness(episodes) | _measure_greedy([*groups, *left_out])
    scored = count_failures(episode for episode in episodes if episode.reward is not None)
    lost = count_lost(episodes)
    lost["tokens_filtered"] = sum(sample.trained for episode in spare for sample in episode.samples)
    for name, counts in (("failed", scored), ("lost", lost), ("retries", Counter(failure.reason for failure in again))):
        metrics |= {f"signal/{name}/{reason}": float(count) for reason, count in sorted(counts.items()) if count}
    return metrics


def _compute_staleness(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return by how many updates the sampling weights lag behind those at the step's start, over the tokens of trained agents."""
    lags: Counter[int] = Counter()
    for episode in episodes:
        for call in (call for call in episode.calls if call.untrained != "frozen_agent"):
            ends = [span.start for span in call.weights[1:]] + [len(call.output_ids)]
            for span, end in zip(call.weights, ends, strict=False):
                lags[max(0, episode.step - 1 - span.version)] += end - span.start
    tokens = lags.total()
    if not tokens:
        return {}
    mean = sum(lag * count for lag, count in lags.items()) / tokens
    return {"staleness/mean": mean, "staleness/max": float(max(lag for lag, count in lags.items() if count))}


def _measure_greedy(groups: Sequence[Group]) -> dict[str, float]:
    """Return what the siblings at temperature 0 got and took, and how many have no reward; empty if none was played."""
    played = [group.greedy for group in groups if group.greedy is not None]
    rewards = [episode.reward for episode in played if episode.reward is not None]
    tokens = sum(len(call.output_ids) for episode in played for call in episode.calls)
    found = {"greedy/tokens": float(tokens), "greedy/without_reward": float(len(played) - len(rewards))} if played else {}
    return found | ({"greedy/reward_mean": sum(rewards) / len(rewards)} if rewards else {})


def count_branches(episode: Episode) -> int:
    """Count the paths of the token tree beyond one per agent."""
    # Calls through an engine without token ids have no place in the tree.
    calls = index_calls([call for call in episode.calls if stream_length(call)])
    return len(find_leaves(calls)) - len({call.agent for call in calls.values()})


def is_cut_in_reasoning(episode: Episode) -> bool:
    """Whether a limit cut an answer of the model off inside its reasoning."""
    return any(call.untrained is None and call.reply.get("cut_reasoning") for call in episode.calls)


def count_lost(episodes: Iterable[Episode]) -> Counter[str]:
    """Count what was lost: episodes without a reward or samples, by reason, and tokens as `tokens_<reason>`."""
    found: Counter[str] = Counter()
    for episode in episodes:
        if not episode.completed and episode.failures and episode.reward is None:
            found[episode.failures[-1].reason] += 1
        elif isinstance(episode.verdict, Unjudged) and episode.reward is None:
            found[episode.verdict.reason] += 1
        elif not any(sample.trained for sample in episode.samples):
            found["nothing_to_train"] += 1
        for reason, count in episode.untrained.items():
            found[f"tokens_{reason}"] += count
        again = sum(failure.tokens for failure in episode.failures if failure.retried)
        if again:
            found["tokens_retried"] += again
    return found


def compute_madness_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return, for each detector of abnormal behaviour, the share of the episodes it watched in which it found something."""
    return compute_means("madness", ({name: bool(found) for name, found in episode.findings.items()} for episode in episodes))


def compute_validation_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return the `val/…` numbers of a validation pass: rewards, success and pass@k over all its episodes, and what failed.

    Where tasks name several sources in their metadata (`data_source`), each has its own numbers: `val/{source}/pass@1`.
    """
    episodes = [episode for group in groups for episode in group.episodes]
    metrics = {f"val/{name}": value for name, value in compute_madness_metrics(episodes).items()}
    known = knows_success(episodes)
    metrics |= {f"val/{name}": value for name, value in compute_scores(groups, known=known).items()}
    failures = count_failures(episodes)
    metrics |= {"val/episodes": float(len(episodes)), "val/failed": float(failures.total())}
    metrics["val/cut_reasoning"] = float(sum(map(is_cut_in_reasoning, episodes)))
    metrics |= {f"val/failed/{reason}": float(count) for reason, count in sorted(failures.items())}
    metrics["val/retries"] = float(sum(failure.retried for episode in episodes for failure in episode.failures))
    sources: dict[str, list[Group]] = {}
    for group in groups:
        sources.setdefault(str(group.task.metadata.get("data_source", "")), []).append(group)
    if len(sources) > 1:
        for source, own in sources.items():
            metrics |= {f"val/{source or 'other'}/{name}": value for name, value in compute_scores(own, known=known).items()}
    return metrics
