"""What was said up to each response of an episode, for APIs whose clients name a response in place of saying it all again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from astuner.gateway.recording.messages import normalise
from astuner.rendering.errors import bad_request
from astuner.token_streams import prompt_length

if TYPE_CHECKING:
    from astuner.gateway.tree.token_tree import Placement
    from astuner.schema import Call, Message


@define(eq=False)
class Conversations:
    """Puts a conversation together out of what each of its calls added, which the records of finished calls hold anyway."""

    _under_way: dict[int, _Asked] = field(factory=dict, init=False)
    _responses: dict[str, tuple[int, int]] = field(factory=dict, init=False)

    def begin(self, index: int, placement: Placement, messages: tuple[Message, ...]) -> None:
        """Note the messages that a call adds to those of its parent, until it ends."""
        self._under_way[index] = _Asked(placement.parent, placement.kept, len(placement.ids), messages)

    def end(self, index: int) -> None:
        """Take note that a call is finished."""
        self._under_way.pop(index, None)

    def answers(self, response: str, index: int, preamble: int) -> None:
        """Note which call a response is of; the first `preamble` messages of its conversation end with it."""
        self._responses[response] = (index, preamble)

    def until(self, response: str, calls: Mapping[int, Call]) -> tuple[Message, ...]:
        """Return what was said up to and with a response; raises ApiError (400) when there is no such response.

        `calls` are the finished ones of the episode.
        """
        index, preamble = self._responses.get(response, (-1, 0))
        call = calls.get(index)
        if call is None or call.finish_reason == "abort":
            what = "is not known in this episode" if index < 0 else "has no complete answer"
            raise bad_request(
                f"The response that 'previous_response_id' names {what}, so nothing goes on from it. Send the items in 'input'.",
                "previous_response_id",
                "previous_response_not_found",
            )
        parts: list[tuple[Message, ...]] = [(call.reply,)]
        place: int | None = index
        while place is not None:
            asked = self._asked(place, calls)
            parts.append(asked.messages)
            # A call that keeps no sampled id of its parent asks anew from the parent's prompt, without its reply.
            if asked.parent is not None and asked.kept > self._asked(asked.parent, calls).prompt_length:
                parts.append((calls[asked.parent].reply,))
            place = asked.parent
        return normalise([message for part in reversed(parts) for message in part][preamble:])

    def _asked(self, index: int, calls: Mapping[int, Call]) -> _Asked:
        call = calls.get(index)
        return self._under_way[index] if call is None else _Asked(call.parent, call.kept, prompt_length(call), call.messages)


@frozen(eq=False)
class _Asked:
    parent: int | None
    kept: int
    prompt_length: int
    messages: tuple[Message, ...]
