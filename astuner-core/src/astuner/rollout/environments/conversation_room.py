"""What a tracker that manages the conversation works with: token counts and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.schema import Message

if TYPE_CHECKING:
    from astuner.rendering import TemplateRenderer

CHARACTERS_PER_TOKEN = 4
"""About, for English text; other scripts have about one token per character."""
TOKENS_PER_MESSAGE = 4
"""About, for what a template puts around a message."""


class TokenCounter:
    """Counts as the model's template renders; estimates without a tokenizer, or for messages that the template refuses."""

    def __init__(self, renderer: TemplateRenderer | None) -> None:
        """None for chat engines, which have no token ids."""
        self._renderer = renderer
        self.exact = renderer is not None
        """Whether limits can be relied on."""

    def count_text(self, text: str) -> int:
        """Return the tokens of a text."""
        return _estimate_tokens(text) if self._renderer is None else len(self._renderer.encode(text))

    def count_messages(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
        """Return the tokens of a conversation with the header of the next answer, and of the tools if any."""
        from astuner.gateway.recording.messages import normalise
        from astuner.rendering.errors import ApiError

        if self._renderer is not None:
            try:
                rendered = self._renderer.render(
                    normalise([dict(message) for message in messages]), tools, generate=True, kwargs={}
                )
                return len(self._renderer.encode(rendered))
            except ApiError:
                # Templates refuse what is not a conversation, such as a single answer, but a policy may still need its size.
                pass
        return sum(TOKENS_PER_MESSAGE + self.count_text(_join_text(message)) for message in messages)


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


def _join_text(message: Message) -> str:
    parts = [message.get("content"), message.get("reasoning_content"), message.get("tool_calls")]
    return "\n".join(part if isinstance(part, str) else str(part) for part in parts if part)
