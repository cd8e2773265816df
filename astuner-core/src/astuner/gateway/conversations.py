"""What was said up to each response of an episode, for APIs whose clients name a response in place of saying it all again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from astuner.gateway.errors import bad_request
from astuner.gateway.messages import normalise

if TYPE_CHECKING:
    from astuner.gateway.tree import Placement
    from astuner.schema import Call, Message


@define(eq=False)
class Conversations:
    """Keeps for each call only what it added to the call that it continues, as the records do."""

    _asked: dict[int, _Asked] = field(factory=dict, init=False)
    _responses: dict[str, tuple[int, int]] = field(factory=dict, init=False)

    def begin(self, index: int, placement: Placement | None, messages: tuple[Message, ...]) -> None:
        """Note the messages that a call adds to those of its parent; without a placement there is no parent."""
        if placement is None:
            self._asked[index] = _Asked(parent=None, kept=0, prompt_length=0, messages=messages)
        else:
            own = _Asked(parent=placement.parent, kept=placement.kept, prompt_length=len(placement.ids), messages=messages)
            self._asked[index] = own

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
            asked = self._asked[place]
            parts.append(asked.messages)
            # A call that keeps no sampled id of its parent asks anew from the parent's prompt, without its reply.
            if asked.parent is not None and asked.kept > self._asked[asked.parent].prompt_length:
                parts.append((calls[asked.parent].reply,))
            place = asked.parent
        return normalise([message for part in reversed(parts) for message in part][preamble:])


@frozen(kw_only=True, eq=False)
class _Asked:
    parent: int | None
    kept: int
    prompt_length: int
    messages: tuple[Message, ...]
