"""One sample per episode: the longest conversation that starts with the first trainable call."""

from __future__ import annotations

from collections.abc import Sequence

from astuner.contract.protocols import EpisodeIdentity, Tracked
from astuner.contract.schema import Call
from astuner.contract.token_streams import Stretch, find_leaves, find_stretches, index_calls
from astuner.episodes.builtin.trackers.path_rows import count_untrained, make_sample, take_row


class LinearTracker:
    """For agents with one growing conversation; other branches and agents are left out, and counted."""

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return at most one sample; sampled tokens off its path are untrained for the reason `branch_not_linear`."""
        known = index_calls(calls)
        first = min((call.index for call in calls if call.untrained is None and len(call.output_ids)), default=None)
        row = None
        done: dict[int, int] = {}
        if first is not None:
            paths = [find_stretches(known, leaf) for leaf in find_leaves(known)]
            row = take_row(max((path for path in paths if _holds(path, first)), key=_measure), done)
        return Tracked(
            samples=[make_sample(row, identity)] if row is not None else [],
            untrained=count_untrained(calls, done, "branch_not_linear"),
        )


def _holds(path: Sequence[Stretch], first: int) -> bool:
    return any(part.call.index == first and part.sampled for part in path)


def _measure(path: Sequence[Stretch]) -> tuple[int, int]:
    """Count the calls with a sampled token on a path, then its ids; of equal paths the first recorded wins."""
    return sum(part.sampled > 0 for part in path), sum(part.fed + part.sampled for part in path)
