"""Events of a request's choices: parts of an answer, collected into a reply, and its end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.schema import Message

if TYPE_CHECKING:
    from astuner.model.rendering.reply_parser import Piece


@frozen(kw_only=True, eq=False)
class Answer:
    """The finished answer of one choice."""

    reply: Message
    finish_reason: str
    """`stop`, `length` or `tool_calls`."""
    stop_string: str | None = None
    """The request's stop string that ended it."""
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    """Completion tokens up to the end of the reasoning."""
    logprobs: Sequence[Mapping[str, Any]] | None = None


def count_reasoning_tokens(reply: Message, ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> int:
    """Count the sampled ids up to the end of the reasoning: the fewest whose text holds all of it."""
    reasoning = reply.get("reasoning_content")
    if not reasoning:
        return 0
    place = decode(ids).find(reasoning)
    end = place + len(reasoning)
    return bisect_left(range(len(ids)), end, key=lambda count: len(decode(ids[:count]))) if place >= 0 else len(ids)


@frozen(eq=False)
class Delta:
    """The next part of a choice's answer."""

    choice: int
    fields: Mapping[str, Any]
    """As in `choices[].delta` of a chat completion; a tool call comes in one piece."""
    logprobs: Sequence[Mapping[str, Any]] | None = None
    prompt_tokens: int = 0
    """As in the final answer: some streams begin with their prompt's token count."""
    cached_tokens: int = 0


@frozen(eq=False)
class Done:
    """The end of a choice: an answer or an error."""

    choice: int
    result: Answer | Exception


class ReplyBuilder:
    """Collects the pieces of an answer."""

    def __init__(self, tool_call_id: Callable[[int], str]) -> None:
        """`tool_call_id` makes the id of the n-th tool call."""
        self._tool_call_id = tool_call_id
        self._texts: dict[str, list[str]] = {"content": [], "reasoning": []}
        self.calls: list[dict[str, Any]] = []
        """The tool calls so far."""

    def add(self, piece: Piece) -> Mapping[str, Any]:
        """Add a piece; return it as the delta of a stream."""
        if piece.kind == "tool_call":
            number = len(self.calls)
            # A result names the call by its id, so a model that writes ids must see its own.
            taken = {call["id"] for call in self.calls}
            call = {
                "id": piece.id if piece.id and piece.id not in taken else self._tool_call_id(number),
                "type": "function",
                "function": {"name": piece.name, "arguments": piece.text},
            }
            self.calls.append(call)
            return {"tool_calls": [{"index": number, **call}]}
        self._texts[piece.kind].append(piece.text)
        return {"content" if piece.kind == "content" else "reasoning_content": piece.text}

    def message(self) -> dict[str, Any]:
        """Return the reply for the client; as in OpenAI's API its content is null only next to tool calls."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts["content"])}
        if self._texts["reasoning"]:
            message["reasoning_content"] = "".join(self._texts["reasoning"])
        if self.calls:
            message.update(content=message["content"] or None, tool_calls=self.calls)
        return message
