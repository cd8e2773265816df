"""Reading the token streams of recorded calls from the tree they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from astuner.contract.schema import Call, Message

if TYPE_CHECKING:
    from astuner.contract.schema import Ids


@frozen(kw_only=True, eq=False)
class Stretch:
    """The part of one call that lies in a stream."""

    call: Call
    start: int
    """Position in the stream of the first id that this call added."""
    fed: int
    """How many of its prompt ids are in the stream."""
    sampled: int
    """How many of its output ids follow them."""

    @property
    def ids(self) -> Ids:
        """The ids that lie in the stream."""
        if self.sampled == 0:
            return self.call.prompt_ids[: self.fed]
        return np.concatenate((self.call.prompt_ids, self.call.output_ids[: self.sampled]))


def index_calls(calls: Sequence[Call]) -> Mapping[int, Call]:
    """Return the calls by their position in the episode."""
    return {call.index: call for call in calls}


def find_stretches(calls: Mapping[int, Call], index: int) -> list[Stretch]:
    """Return the calls whose ids make up the stream of a call, in the order of the stream."""
    found = []
    wanted: int | None = None
    place: int | None = index
    while place is not None:
        call = calls[place]
        fed, sampled = len(call.prompt_ids), len(call.output_ids)
        if wanted is not None:
            fed = max(0, min(fed, wanted - call.kept))
            sampled = max(0, min(sampled, wanted - call.kept - len(call.prompt_ids)))
        found.append(Stretch(call=call, start=call.kept, fed=fed, sampled=sampled))
        wanted = call.kept if wanted is None else min(wanted, call.kept)
        place = call.parent
    found.reverse()
    return found


def find_leaves(calls: Mapping[int, Call]) -> list[int]:
    """Return the calls whose whole stream no other call continues, in their order."""
    continued = {
        call.parent for call in calls.values() if call.parent is not None and call.kept == stream_length(calls[call.parent])
    }
    return [index for index in sorted(calls) if index not in continued]


def stream_ids(calls: Sequence[Call], index: int) -> Ids:
    """Return every id of a call's stream: its whole prompt and its output."""
    return join_ids(find_stretches(index_calls(calls), index))


def join_ids(parts: Sequence[Stretch]) -> Ids:
    """Return the ids of consecutive stretches."""
    return np.concatenate([part.ids for part in parts], dtype=np.int32)


def prompt_length(call: Call) -> int:
    """Return the length of a call's whole prompt."""
    return call.kept + len(call.prompt_ids)


def stream_length(call: Call) -> int:
    """Return the length of a call's stream."""
    return prompt_length(call) + len(call.output_ids)


def conversation(calls: Sequence[Call], index: int) -> tuple[Message, ...]:
    """Return every message of a call's request, including those stored by its parents."""
    known = index_calls(calls)
    call = known[index]
    parts = [call.messages]
    while call.parent is not None:
        parent = known[call.parent]
        # A call that keeps no sampled id of its parent starts again from the parent's prompt, without its reply.
        parts.append((*parent.messages, parent.reply) if call.kept > prompt_length(parent) else parent.messages)
        call = parent
    return tuple(message for part in reversed(parts) for message in part)
