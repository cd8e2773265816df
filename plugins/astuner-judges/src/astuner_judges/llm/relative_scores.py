"""Shared parts of judging works against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from astuner.contract.schema import Episode, Unjudged, Verdict

Works = Sequence[str | None]
"""The text of each episode of a group, in their order; None for an episode without an answer."""


def share_won(work: str | None, counts: Mapping[str | None, int], beats: Callable[[str, str], float | None]) -> float:
    """Return the share of siblings that a work beats; a tie counts half, as do the same work, and two empty ones.

    `beats` compares two different non-empty works; None leaves that pair out.
    """
    won, met = 0.0, 0
    for other, count in counts.items():
        if other == work:
            share, count = 0.5, count - 1
        elif work is None or other is None:
            share = float(other is None)
        else:
            found = beats(work, other)
            if found is None:
                continue
            share = found
        won, met = won + share * count, met + count
    return won / met


def compare(one: float, other: float) -> int:
    """Return 1 if the first is more, -1 if it is less, 0 if they are equal."""
    return (one > other) - (one < other)


def share_turned(work: str, others: Sequence[str], orders: Sequence[Mapping[str, float]]) -> float:
    """Return the share of other works that are on another side of a work in one order than in another."""
    return fmean(len({compare(values[work], values[other]) for values in orders}) > 1 for other in others)


def count_works(works: Works) -> Mapping[str | None, int]:
    """Return how many episodes show each work, in an order independent of theirs, so that sums are the same."""
    return dict(sorted(Counter(works).items(), key=lambda item: (item[0] is None, item[0])))


def name_works(episodes: Sequence[Episode], works: Works) -> Mapping[str | None, str]:
    """Return the name of a sibling's work in a rationale."""
    repeats: dict[str | None, list[str]] = {}
    for episode, work in zip(episodes, works, strict=True):
        repeats.setdefault(work, []).append(str(episode.repeat))
    return {work: f"sibling{'s' if len(those) > 1 else ''} {', '.join(those)}" for work, those in repeats.items()}


def judge_lone(reward: float | None, mode: str) -> Verdict | Unjudged:
    """Return the verdict on an episode without siblings."""
    if reward is not None:
        return Verdict(reward, rationale="There is no sibling to compare it with.")
    return Unjudged(
        reason="no_siblings",
        detail=f"judge 'llm': mode: {mode} compares the completed episodes of a task, and there is one alone; let more be played "
        "(rollout.num_repeat, rollout.val_kwargs.num_repeat), set lone_reward, or take mode: relative or pointwise",
    )
