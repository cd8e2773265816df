"""The sampled tokens of each call that the samples of an episode train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from astuner.contract.schema import Call, Episode, Sample
from astuner.contract.token_streams import find_stretches, index_calls

if TYPE_CHECKING:
    from astuner.contract.schema import Mask

NO_CALL = -1
"""In place of a call: no call of the episode has sampled these tokens."""


@frozen(kw_only=True)
class TrainedStretch:
    """Neighbouring tokens that a sample trains, all of one call."""

    call: int
    """Its index in the episode, or `NO_CALL`."""
    start: int
    """Position of the first token in the call's output; among the sample's ids if there is no call."""
    count: int
    place: int
    """Position of the first token among the sample's ids."""


def find_trained_stretches(episode: Episode) -> list[tuple[TrainedStretch, ...]]:
    """Return, for each sample, where its trained tokens come from, in their order; every one is in exactly one stretch."""
    calls = index_calls(episode.calls)
    found = {index: np.zeros(len(call.output_ids), bool) for index, call in calls.items()}
    return [tuple(sorted(_trace(sample, calls, found), key=attrgetter("place"))) for sample in episode.samples]


def mark_trained_tokens(episode: Episode) -> dict[int, Mask]:
    """Return by call, for each sampled token, whether it is trained; every sampled token belongs to exactly one call."""
    marks = {call.index: np.zeros(len(call.output_ids), bool) for call in episode.calls}
    for stretches in find_trained_stretches(episode):
        for one in stretches:
            if one.call != NO_CALL:
                marks[one.call][one.start : one.start + one.count] = True
    return marks


def _trace(sample: Sample, calls: Mapping[int, Call], found: Mapping[int, Mask]) -> Iterator[TrainedStretch]:
    """Yield the stretches of a sample, and mark them in `found`."""
    rest = sample.mask.copy()
    known = [index for index in sample.calls if index in calls]
    if known:
        yield from _trace_path(sample, calls, known[-1], rest, found)
    # A tracker may train answers where a later prompt repeats them, verbatim and in order.
    for index in known:
        if not rest.any():
            return
        if (repeated := _find_repeated(sample, calls[index], rest, found[index])) is not None:
            found[index][repeated.start : repeated.start + repeated.count] = True
            rest[repeated.place : repeated.place + repeated.count] = False
            yield repeated
    for first, last in _list_runs(rest) if rest.any() else ():
        yield TrainedStretch(call=NO_CALL, start=first, count=last - first, place=first)


def _trace_path(
    sample: Sample, calls: Mapping[int, Call], leaf: int, rest: Mask, found: Mapping[int, Mask]
) -> Iterator[TrainedStretch]:
    """Yield the tokens that are at the positions of a call's stream, and take them out of `rest`."""
    for part in find_stretches(calls, leaf):
        first = part.start + part.fed
        last = min(first + part.sampled, len(rest))
        if part.call.index not in sample.calls or last <= first:
            continue
        here = rest[first:last] & (sample.ids[first:last] == part.call.output_ids[: last - first])
        found[part.call.index][: last - first] |= here
        rest[first:last] &= ~here
        for begin, end in _list_runs(here):
            yield TrainedStretch(call=part.call.index, start=begin, count=end - begin, place=first + begin)


def _find_repeated(sample: Sample, call: Call, rest: Mask, found: Mask) -> TrainedStretch | None:
    """Return the longest run of a call's tokens in the rest of a sample's mask."""
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
    return TrainedStretch(call=call.index, start=-best[1], count=best[0], place=-best[2]) if best[0] else None


def _list_runs(mask: Mask) -> list[tuple[int, int]]:
    """Return the runs of true values, each as its first position and one past its last."""
    if mask.all():
        return [(0, len(mask))] if len(mask) else []
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
