"""Leaves answers that were cut off out of the loss: DAPO's overlong filtering (arXiv 2503.14476, section 3.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from attrs import evolve

from astuner.contract.protocols import Tracked
from astuner.contract.schema import Call, Sample

TRUNCATED = "truncated"
"""Why tokens are untrained: an answer of their agent was cut off in the episode."""
CUT = ("length", "context")
"""How an answer ends that was cut off: at its own limit, or at the end of the context."""


def filter_overlong(tracked: Tracked, calls: Iterable[Call]) -> Tracked:
    """Untrain all tokens of the agents that had a trained answer cut off at a length limit.

    Their samples stay, so that the episode's reward is still compared with its siblings'.
    """
    cut = {call.agent for call in calls if call.finish_reason in CUT and call.untrained is None}
    samples = [_untrain(sample) if sample.agent in cut else sample for sample in tracked.samples]
    lost = sum(sample.trained for sample in tracked.samples if sample.agent in cut)
    untrained = Counter(tracked.untrained) + Counter({TRUNCATED: lost})
    return evolve(tracked, samples=samples, untrained=dict(untrained))


def _untrain(sample: Sample) -> Sample:
    return evolve(sample, mask=np.zeros_like(sample.mask), logprobs=np.zeros_like(sample.logprobs))
