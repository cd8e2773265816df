"""The sampled tokens of each call that the samples of an episode train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from astuner.schema import Call, Episode, Sample
from astuner.token_streams import find_stretches, index_calls

if TYPE_CHECKING:
    from astuner.schema import Mask


def mark_trained_tokens(episode: Episode) -> dict[int, Mask]:
    """Return by call, for each sampled token, whether it is trained; every sampled token belongs to exactly one call."""
    calls = index_calls(episode.calls)
    found = {index: np.zeros(len(call.output_ids), bool) for index, call in calls.items()}
    for sample in episode.samples:
        rest = _mark_on_path(sample, calls, found)
        # A tracker may train answers where a later prompt repeats them, verbatim and in order.
        for index in sample.calls:
            rest = _mark_repeated(sample, calls[index], rest, found[index])
    return found


def _mark_on_path(sample: Sample, calls: Mapping[int, Call], found: Mapping[int, Mask]) -> Mask:
    """Mark the tokens at the positions of the last call's stream; return the rest of the mask."""
    rest = sample.mask.copy()
    for part in find_stretches(calls, sample.calls[-1]):
        first = part.start + part.fed
        last = min(first + part.sampled, len(rest))
        if part.call.index in sample.calls and last > first:
            here = rest[first:last] & (sample.ids[first:last] == part.call.output_ids[: last - first])
            found[part.call.index][: last - first] |= here
            rest[first:last] &= ~here
    return rest


def _mark_repeated(sample: Sample, call: Call, rest: Mask, found: Mask) -> Mask:
    """Mark the longest run of a call's tokens found in the rest of a sample's mask; return the new rest."""
    best = (0, 0, 0)
    for first in map(int, np.flatnonzero(~found)):
        if len(call.output_ids) - first <= best[0]:
            break
        same = (sample.ids == call.output_ids[first]) & (sample.logprobs == call.logprobs[first]) & rest
        for start in map(int, np.flatnonzero(same)):
            size = min(len(call.output_ids) - first, len(rest) - start)
            both = (
                rest[start : start + size]
                & (sample.ids[start : start + size] == call.output_ids[first : first + size])
                & (sample.logprobs[start : start + size] == call.logprobs[first : first + size])
            )
            count = size if both.all() else int(np.argmin(both))
            best = max(best, (count, -first, -start))
    count, begin, place = best[0], -best[1], -best[2]
    if not count:
        return rest
    found[begin : begin + count] = True
    left = rest.copy()
    left[place : place + count] = False
    return left
