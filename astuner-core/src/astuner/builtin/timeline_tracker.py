"""Samples along the paths of the token tree: each agent's turns in one row, a further row per branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from astuner.gateway.streams import Stretch, by_index, joined, stream_length, stretches
from astuner.protocols import EpisodeIdentity, Tracked
from astuner.schema import Call, Sample


class TimelineTracker:
    """One sample per path from a root of the tree to a leaf.

    What two paths share is trained in the first of them and context in the others.
    """

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return the samples in the order of their last calls, and the tokens of untrained calls by reason."""
        known = by_index(calls)
        continued = {call.parent for call in calls if call.parent is not None and call.kept == stream_length(known[call.parent])}
        done: dict[int, int] = {}
        rows = []
        for leaf in sorted(known):
            if leaf not in continued:
                row = path_sample(stretches(known, leaf), done, identity)
                if row is not None:
                    rows.append(row)
        untrained: Counter[str] = Counter()
        for call in calls:
            if call.untrained is not None and len(call.output_ids):
                untrained[call.untrained] += len(call.output_ids)
        return Tracked(samples=rows, untrained=dict(untrained))


def path_sample(path: Sequence[Stretch], done: dict[int, int], identity: EpisodeIdentity) -> Sample | None:
    """Make the sample of one path out of what is not trained yet, and count it in `done` (sampled tokens by call).

    None when the path has nothing left to train.
    """
    ids = joined(path)
    mask = np.zeros(len(ids), bool)
    logprobs = np.zeros(len(ids), np.float32)
    trained = []
    end = 0
    for part in path:
        first = done.get(part.call.index, 0)
        if part.call.untrained is not None or part.sampled <= first:
            continue
        begin = part.start + part.fed
        end = begin + part.sampled
        mask[begin + first : end] = True
        logprobs[begin + first : end] = part.call.logprobs[first : part.sampled]
        done[part.call.index] = part.sampled
        trained.append(part.call.index)
    if not trained:
        return None
    # What follows the last trained token teaches nothing.
    return Sample(
        episode_id=identity.episode_id,
        task_id=identity.task_id,
        repeat=identity.repeat,
        agent=path[-1].call.agent,
        ids=ids[:end],
        mask=mask[:end],
        logprobs=logprobs[:end],
        calls=tuple(trained),
    )
