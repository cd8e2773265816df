"""From which label an answer is good, and from which reward a verdict is a success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from astuner.schema import Verdict
from astuner_judges.evaluation.judging import JudgedExample

_CLOSE = 0.25
"""How far from the end of a scale, as a part of it, the best and the worst reward may lie."""


@frozen(kw_only=True)
class Limits:
    """What makes decisions of labels and rewards, so that they can be compared."""

    label: float
    """From which on an answer is good."""
    reward: float | None = None
    """From which on a verdict that does not say so is a success; None where all say it, or where it cannot be told."""
    decides: bool = True
    """Whether each verdict says, by itself or by its reward, if it is a success."""
    notes: tuple[str, ...] = ()
    """What a user must know of these."""


def find_limits(
    examples: Sequence[JudgedExample], *, threshold: float | None = None, success_reward: float | None = None, options: Any = None
) -> Limits:
    """Return the limits that are given, and where they are not, those that labels, rewards and the judge's `options` suggest.

    A label counts as good from the judge's own `success_threshold`, where it has one on the scale of the labels, else from
    halfway between their extremes. That is taken for a limit of rewards only where these are seen to be on the same scale.
    """
    labels = [answer.label for judged in examples if judged.example.scored for answer in judged.example.answers]
    if not labels or not all(judged.example.scored for judged in examples):
        return Limits(label=0.5 if threshold is None else threshold)  # ranks make no decisions
    low, high = min(labels), max(labels)
    label, notes = (threshold, []) if threshold is not None else _from_which_label(low, high, options)
    rewards = _list_undecided_rewards(examples)
    if not rewards:
        return Limits(label=label, notes=tuple(notes))
    if success_reward is None and _is_one_scale(rewards, low, high, label):
        success_reward = label
    if success_reward is None:
        notes.append(
            f"it does not say which verdicts are successes, and its rewards ({min(rewards):g} to {max(rewards):g}) may not be on "
            f"the scale of the labels ({low:g} to {high:g}, good from {label:g}): accuracy and kappa are left out; "
            "give --success-reward"
        )
    return Limits(label=label, reward=success_reward, decides=success_reward is not None, notes=tuple(notes))


def _from_which_label(low: float, high: float, options: Any) -> tuple[float, list[str]]:
    halfway = (low + high) / 2 if low < high else 0.5
    own = getattr(options, "success_threshold", None)
    if own is None:
        return halfway, []
    worst, best = getattr(options, "min_score", low), getattr(options, "max_score", high)
    if own <= high and worst <= low and high <= best:
        return float(own), []
    told = (
        f"its success_threshold of {own:g} says nothing of these labels, which go from {low:g} to {high:g}: they count as good "
        f"from {halfway:g}; give --threshold"
    )
    return halfway, [told]


def _list_undecided_rewards(examples: Sequence[JudgedExample]) -> list[float]:
    every = [judgement for judged in examples for judgement in judged.forwards]
    return [judgement.reward for judgement in every if isinstance(judgement, Verdict) and judgement.is_success is None]


def _is_one_scale(rewards: Sequence[float], low: float, high: float, label: float) -> bool:
    """Whether rewards lie where labels do, and some reach what a good label is.

    Labels between 0 and 1 may mean all of that. Any others are a scale that has to be recognised: rewards lie on it that come
    close to both of its ends, since what stays within a part of it may as well be all of another scale.
    """
    worst, best = min(rewards), max(rewards)
    if low >= 0 and high <= 1:
        return worst >= 0 and label <= best <= 1
    close = _CLOSE * (high - low)
    return low <= worst <= low + close and max(label, high - close) <= best <= high
