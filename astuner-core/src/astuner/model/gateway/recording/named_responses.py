"""The conversation up to each response of an episode, for APIs whose clients name a response instead of resending it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from astuner.model.gateway.recording.messages import join_answers, normalise
from astuner.model.rendering.errors import bad_request

if TYPE_CHECKING:
    from astuner.contract.schema import Call, Message
    from astuner.model.gateway.tree.token_tree import Placement


@define(eq=False)
class Conversations:
    """Assembles a conversation from the messages that each of its calls added."""

    _calls: dict[int, _CallMessages] = field(factory=dict, init=False)
    _responses: dict[str, tuple[int, int]] = field(factory=dict, init=False)

    def begin(self, index: int, messages: tuple[Message, ...], placement: Placement | None = None) -> None:
        """Keep the messages that a call adds to those of its parent, if it has one."""
        if placement is None:
            self._calls[index] = _CallMessages(None, 0, 0, messages)
        else:
            self._calls[index] = _CallMessages(placement.parent, placement.kept, len(placement.ids), messages)

    def name_response(self, response: str, index: int, preamble: int) -> None:
        """Record a response's call; the first `preamble` messages of its conversation are not continued."""
        self._responses[response] = (index, preamble)

    def collect_until(self, response: str, calls: Mapping[int, Call]) -> tuple[Message, ...]:
        """Return the conversation up to and including a response; raises ApiError (400) if there is no such response.

        `calls` are the finished ones of the episode.
        """
        index, preamble = self._responses.get(response, (-1, 0))
        call = calls.get(index)
        if call is None or call.finish_reason == "abort":
            what = "is not known in this episode" if index < 0 else "has no complete answer"
            raise bad_request(
                f"The response that 'previous_response_id' names {what}, so it cannot be continued. Send the items in 'input'.",
                "previous_response_id",
                "previous_response_not_found",
            )
        parts: list[tuple[Message, ...]] = [(call.reply,)]
        current: int | None = index
        while current is not None:
            added = self._calls[current]
            parts.append(added.messages)
            # A call that keeps no sampled id of its parent starts again from the parent's prompt, without its reply.
            if added.parent is not None and added.kept > self._calls[added.parent].prompt_length:
                parts.append((calls[added.parent].reply,))
            current = added.parent
        return normalise(join_answers([message for part in reversed(parts) for message in part][preamble:]))


@frozen(eq=False)
class _CallMessages:
    parent: int | None
    kept: int
    prompt_length: int
    messages: tuple[Message, ...]
