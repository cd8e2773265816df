"""What a tracker that manages the conversation works with: token counts and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.schema import Message
from astuner.episodes.rollout.environment_text import clip_environment_message
from astuner.model.gateway.recording.body_limit import BYTES_PER_TOKEN, BodyLimit
from astuner.model.rendering.errors import ApiError
from astuner.model.rendering.template_renderer import LONGEST_CACHED

if TYPE_CHECKING:
    from astuner.model.rendering import TemplateRenderer

CHARACTERS_PER_TOKEN = 4
"""About, for English text; other scripts have about one token per character."""
TOKENS_PER_MESSAGE = 4
"""About, for what a template puts around a message."""


class TokenCounter:
    """Counts as the model's template renders; estimates without a tokenizer, or for messages that the template refuses.

    Long texts are counted in a thread, unless they are far longer than `enough` tokens.
    """

    def __init__(self, renderer: TemplateRenderer | None, enough: int) -> None:
        """No renderer for chat engines, which have no token ids."""
        self._renderer, self.enough = renderer, enough
        self.exact = renderer is not None
        """Whether limits can be relied on."""

    async def count_messages(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
        """Return the tokens of a conversation with the header of the next answer, and of the tools if any."""
        if _is_long([*messages, *tools]):
            return await asyncio.to_thread(self._count_long, messages, tools)
        return self._count_conversation(messages, tools)

    async def clip(self, message: Message, max_tokens: int) -> Message:
        """Return a message of an environment, cut to this many tokens if it is longer."""
        clip = partial(clip_environment_message, message, max_tokens, self._count_text)
        return await asyncio.to_thread(clip) if _is_long(message) else clip()

    def _count_text(self, text: str) -> int:
        if self._renderer is None:
            return _estimate_tokens(text)
        return len(self._renderer.encode(text))

    def _count_long(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> int:
        """Count, but return an estimate before anything is rendered if the gateway would not read so much."""
        size = _count_characters([*messages, *tools])
        if self._renderer is not None and size > BodyLimit.derive(self.enough).max_bytes:
            return max(self.enough + 1, size // BYTES_PER_TOKEN)
        return self._count_conversation(messages, tools)

    def _count_conversation(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> int:
        if self._renderer is not None:
            # Templates refuse what is not a conversation, such as a single answer, but a policy may still need its size.
            with suppress(ApiError):
                text = self._renderer.render(_normalise(messages), tools, generate=True, kwargs={})
                return self._count_text(text)
        return sum(TOKENS_PER_MESSAGE + self._count_text(_join_text(message)) for message in messages)


@frozen(kw_only=True)
class ContextLimits:
    """The limits of a conversation, in tokens."""

    max_model_len: int
    max_prompt_length: int
    max_response_length: int
    max_answer: int

    def limit_first_view(self) -> int:
        """Return the most that the first messages may take."""
        return min(self.max_prompt_length, self._subtract_answer(self.max_model_len))

    def limit_view(self, shortest: int) -> int:
        """Return the most that later messages may take; `shortest` are the tokens of the shortest view so far.

        A view that starts over is the first prompt of a conversation, which `max_response_length` tokens may follow.
        """
        return self._subtract_answer(min(self.max_model_len, shortest + self.max_response_length))

    def _subtract_answer(self, context: int) -> int:
        return context - min(self.max_answer, context // 2)


def _estimate_tokens(text: str) -> int:
    ascii_characters = sum(character < "\x80" for character in text)
    return -(-ascii_characters // CHARACTERS_PER_TOKEN) + len(text) - ascii_characters


def _normalise(messages: Sequence[Message]) -> tuple[Message, ...]:
    from astuner.model.gateway.recording.messages import normalise

    return normalise([dict(message) for message in messages])


def _is_long(value: Any) -> bool:
    """Whether the texts of a value, as JSON has it, are together too long for the event loop."""
    return _count_characters(value) > LONGEST_CACHED


def _count_characters(value: Any) -> int:
    """Return the characters of all texts in a value as JSON has it."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    return sum(map(_count_characters, value))


def _join_text(message: Message) -> str:
    parts = [message.get("content"), message.get("reasoning_content"), message.get("tool_calls")]
    return "\n".join(part if isinstance(part, str) else str(part) for part in parts if part)
