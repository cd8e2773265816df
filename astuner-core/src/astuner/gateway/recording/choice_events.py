"""Events of a request's choices: parts of an answer, and its end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.schema import Message


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
    """Of the completion tokens, those up to the end of the reasoning."""
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
