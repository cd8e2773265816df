"""Events of a request's choices: parts of an answer, collected into a reply, and its end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.schema import Message
from astuner.model.rendering.tool_calls.sampled_json import parse_arguments

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
    """As in `choices[].delta` of a chat completion; a tool call comes in one piece, or in several if `open` says so."""
    logprobs: Sequence[Mapping[str, Any]] | None = None
    prompt_tokens: int = 0
    """As in the final answer: some streams begin with their prompt's token count."""
    cached_tokens: int = 0
    open: bool = False
    """Whether more of the last tool call's arguments may follow."""
    call: Mapping[str, Any] | None = None
    """The tool call that this part completes."""

    @property
    def whole_fields(self) -> Mapping[str, Any]:
        """The fields with a tool call only once it is complete, for APIs that do not stream arguments."""
        fields = {key: value for key, value in self.fields.items() if key != "tool_calls"}
        calls = self.fields.get("tool_calls")
        return {**fields, "tool_calls": [{**calls[0], **self.call}]} if calls and self.call else fields


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
        if piece.follows:
            function = self.calls[-1]["function"]
            function["arguments"] += piece.text
            return {"tool_calls": [{"index": len(self.calls) - 1, "function": {"arguments": piece.text}}]}
        if piece.kind == "tool_call":
            number = len(self.calls)
            # A result names the call by its id, so a model that writes ids must see its own.
            taken = {call["id"] for call in self.calls}
            function = {"name": piece.name, "arguments": piece.text}
            id_ = piece.id if piece.id and piece.id not in taken else self._tool_call_id(number)
            call = {"id": id_, "type": "function", "function": function}
            self.calls.append(call)
            # More arguments may be added to the recorded one.
            return {"tool_calls": [{"index": number, **call, "function": {**function}}]}
        self._texts[piece.kind].append(piece.text)
        return {"content" if piece.kind == "content" else "reasoning_content": piece.text}

    @property
    def is_cut_off(self) -> bool:
        """Whether the arguments of the last call break off."""
        return bool(self.calls) and not isinstance(parse_arguments(self.calls[-1]["function"]["arguments"]), dict)

    def message(self) -> dict[str, Any]:
        """Return the reply for the client; as in OpenAI's API its content is null only next to tool calls."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts["content"])}
        if self._texts["reasoning"]:
            message["reasoning_content"] = "".join(self._texts["reasoning"])
        if self.calls:
            message.update(content=message["content"] or None, tool_calls=self.calls)
        return message
