"""At most so many samples per episode, chosen by rule."""

from __future__ import annotations

from collections import Counter

from astuner.protocols import Tracked


def limit_samples(tracked: Tracked, limit: int) -> Tracked:
    """Keep the `limit` samples with the most trained tokens, earlier ones first among equals, in their order.

    The tokens of the others are counted as untrained under `over_sample_limit`.
    """
    if limit <= 0 or len(tracked.samples) <= limit:
        return tracked
    ranked = sorted(range(len(tracked.samples)), key=lambda i: (-tracked.samples[i].trained, i))
    kept = sorted(ranked[:limit])
    untrained = Counter(tracked.untrained)
    untrained["over_sample_limit"] += sum(tracked.samples[i].trained for i in ranked[limit:])
    return Tracked(samples=[tracked.samples[i] for i in kept], untrained=dict(untrained))
