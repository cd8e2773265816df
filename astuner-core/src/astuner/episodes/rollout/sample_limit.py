"""The limit on the samples per episode, and what it left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from attrs import evolve

from astuner.contract.protocols import Tracked

OVER_LIMIT = "over_sample_limit"
"""Why the tokens of a sample that was left out are untrained."""


def limit_samples(tracked: Tracked, limit: int, seed: int) -> Tracked:
    """Keep `limit` samples, chosen at random with this seed, in their order.

    A choice by length would favour long answers or short ones. The tokens of the samples that are left out are counted as
    untrained under `over_sample_limit`.
    """
    count = len(tracked.samples)
    if limit <= 0 or count <= limit:
        return tracked
    kept = sorted(Random(seed).sample(range(count), limit))
    untrained = Counter(tracked.untrained)
    untrained[OVER_LIMIT] += sum(sample.trained for sample in tracked.samples) - sum(tracked.samples[i].trained for i in kept)
    return evolve(tracked, samples=[tracked.samples[i] for i in kept], untrained=dict(untrained))


class SampleLimit:
    """The limit of a run, `rollout.multi_turn.max_sample_per_task`, with a count of what it left out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._episodes = self._samples = self._tokens = 0
        self._notified = False

    def apply(self, tracked: Tracked, seed: int) -> Tracked:
        """Keep as many samples as are allowed; see `limit_samples`."""
        kept = limit_samples(tracked, self._limit, seed)
        left_out = len(tracked.samples) - len(kept.samples)
        if left_out:
            self._episodes += 1
            self._samples += left_out
            self._tokens += kept.untrained[OVER_LIMIT] - tracked.untrained.get(OVER_LIMIT, 0)
        return kept

    def take_notices(self) -> Iterator[str]:
        """Yield a notice the first time something was left out; the metric of the reason keeps counting."""
        if self._notified or not self._samples:
            return
        self._notified = True
        yield (
            f"rollout.multi_turn.max_sample_per_task: {self._limit} samples of an episode are trained, chosen at random; "
            f"{self._samples} samples ({self._tokens} tokens) of {self._episodes} episodes were left out. Raise it to train "
            f"them too (signal/lost/tokens_{OVER_LIMIT} counts them from here on)."
        )
