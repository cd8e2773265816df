"""What happens to the choices of a request: parts of an answer, and its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.schema import Message


@frozen(kw_only=True, eq=False)
class Answer:
    """The finished answer of one choice."""

    reply: Message
    finish_reason: str
    """`stop`, `length` or `tool_calls`."""
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    logprobs: Sequence[Mapping[str, Any]] | None = None


@frozen(eq=False)
class Delta:
    """The next part of a choice's answer."""

    choice: int
    fields: Mapping[str, Any]
    """As in `choices[].delta` of a chat completion; a tool call comes in one piece."""
    logprobs: Sequence[Mapping[str, Any]] | None = None


@frozen(eq=False)
class Done:
    """The end of a choice: an answer, or the error that took its place."""

    choice: int
    result: Answer | Exception
