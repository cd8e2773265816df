"""The limit on the samples per episode, and what it left out."""

from __future__ import annotations

from collections import Counter

from attrs import evolve

from astuner.protocols import Tracked

OVER_LIMIT = "over_sample_limit"
"""Why the tokens of a sample that was left out are untrained."""


def limit_samples(tracked: Tracked, limit: int) -> Tracked:
    """Keep the `limit` samples with the most trained tokens, earlier ones first among equals, in their order.

    The tokens of the others are counted as untrained under `over_sample_limit`.
    """
    if limit <= 0 or len(tracked.samples) <= limit:
        return tracked
    ranked = sorted(range(len(tracked.samples)), key=lambda i: (-tracked.samples[i].trained, i))
    kept = sorted(ranked[:limit])
    untrained = Counter(tracked.untrained)
    untrained[OVER_LIMIT] += sum(tracked.samples[i].trained for i in ranked[limit:])
    return evolve(tracked, samples=[tracked.samples[i] for i in kept], untrained=dict(untrained))


class SampleLimit:
    """The limit of a run, `rollout.multi_turn.max_sample_per_task`, with a count of what it left out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._episodes = self._samples = self._tokens = 0
        self._notified = False

    def apply(self, tracked: Tracked) -> Tracked:
        """Keep as many samples as are allowed; see `limit_samples`."""
        kept = limit_samples(tracked, self._limit)
        left_out = len(tracked.samples) - len(kept.samples)
        if left_out:
            self._episodes += 1
            self._samples += left_out
            self._tokens += kept.untrained[OVER_LIMIT] - tracked.untrained.get(OVER_LIMIT, 0)
        return kept

    def take_notice(self) -> str | None:
        """Return a notice the first time something was left out; the metric of the reason keeps counting."""
        if self._notified or not self._samples:
            return None
        self._notified = True
        return (
            f"rollout.multi_turn.max_sample_per_task: {self._limit} samples of an episode are trained, those with the most "
            f"tokens; {self._samples} samples ({self._tokens} tokens) of {self._episodes} episodes were left out. Raise it to "
            f"train them too (signal/lost/tokens_{OVER_LIMIT} counts them from here on)."
        )
