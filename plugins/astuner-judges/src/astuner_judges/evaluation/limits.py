"""From which label an answer is good, and from which reward a verdict is a success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from astuner.contract.schema import Verdict
from astuner_judges.evaluation.judging import JudgedExample

_CLOSE = 0.25
"""How far, as a share of a scale, the best and the worst reward may lie from its ends."""


@frozen(kw_only=True)
class Limits:
    """Turns labels and rewards into decisions that can be compared."""

    label: float
    """The lowest label of a good answer."""
    reward: float | None = None
    """The lowest reward of a success, for verdicts that do not say; None if all say, or if it is unknown."""
    decides: bool = True
    """Whether each verdict is known to be a success or not, from itself or its reward."""
    notes: tuple[str, ...] = ()
    """What a user must know about these."""


def find_limits(
    examples: Sequence[JudgedExample], *, threshold: float | None = None, success_reward: float | None = None, options: Any = None
) -> Limits:
    """Return the given limits, and for missing ones those that labels, rewards and the judge's `options` suggest.

    A label is good from the judge's own `success_threshold`, if that is on the scale of the labels, else from halfway between
    their extremes. The same limit applies to rewards only if these are evidently on the same scale.
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
    """Whether rewards are on the scale of the labels, and some reach a good label.

    Labels between 0 and 1 are a common scale. For any other, rewards must come close to both of its ends: those that stay within
    a part of it may be on another scale.
    """
    worst, best = min(rewards), max(rewards)
    if low >= 0 and high <= 1:
        return worst >= 0 and label <= best <= 1
    close = _CLOSE * (high - low)
    return low <= worst <= low + close and max(label, high - close) <= best <= high
