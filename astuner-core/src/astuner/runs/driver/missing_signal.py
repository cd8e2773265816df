"""Why a run learns nothing, in words: what the rewards of some steps have in common, and what to try."""

from __future__ import annotations

from collections.abc import Sequence

from astuner.contract.schema import Group, Verdict
from astuner.episodes.judging.advantages import list_compared
from astuner.episodes.rollout.metrics import count_lost
from astuner.episodes.rollout.scores import count_failures

LOOK = "`astuner run --backbone debug` shows single episodes"
JUDGE = f"check the judge with `astuner judge eval`; {LOOK}"
LIMITS = {
    "context_full": "raise rollout.max_model_len, or shorten what tools and environments answer",
    "max_steps": "raise rollout.multi_turn.max_steps",
    "timeout": "raise rollout.episode_timeout_s or rollout.llm_timeout_s",
}
"""What to change where most episodes fail for a reason."""
SPREAD = "raise rollout.num_repeat or rollout.temperature"


def explain_missing_signal(groups: Sequence[Group]) -> str:
    """Return the reason why no token of these groups has an advantage, and a remedy."""
    episodes = [episode for group in groups for episode in group.episodes]
    rewarded = [episode for episode in episodes if episode.reward is not None]
    rewards = {one.reward for group in groups for entries in list_compared(group, by_agent=True) for one in entries}
    lost = count_lost(episodes).most_common()
    if episodes and not rewarded:
        from astuner.episodes.rollout.loss_summary import count_causes

        [(count, example)] = count_causes(episodes, most=1)
        reason, _, detail = example.partition(": ")
        why = f"{reason} ({count}){': ' if detail else ''}{detail}"
        return f"all {len(episodes)} episodes failed, most often with {why}. {LOOK}."
    if rewarded and not any(sample.trained for episode in rewarded for sample in episode.samples):
        tokens = ", ".join(f"{reason.removeprefix('tokens_')} {count}" for reason, count in lost if reason.startswith("tokens_"))
        return f"no sampled token can be trained ({tokens or 'none was sampled'}). {LOOK}."
    if rewarded and not any(episode.completed and isinstance(episode.verdict, Verdict) for episode in rewarded):
        [(reason, count)] = count_failures(rewarded).most_common(1)
        keys = f"{LIMITS[reason]}; " if reason in LIMITS else ""
        return (
            f"all {len(rewarded)} episodes with a reward failed, most often with {reason} ({count}), and have the rewards of "
            f"rollout.failure_rewards. {keys}{LOOK}."
        )
    if len(rewards) == 1:
        reward = rewards.pop() or 0.0
        solved = all(episode.is_success for episode in rewarded) or (reward == 1 and all(e.is_success is None for e in rewarded))
        tasks = "harder" if solved else "easier"
        return f"all rewards are {reward:g}. Choose {tasks} tasks, or {SPREAD}; {JUDGE}."
    return f"all siblings of a task get the same reward. Choose tasks that are sometimes solved, or {SPREAD}; {JUDGE}."
