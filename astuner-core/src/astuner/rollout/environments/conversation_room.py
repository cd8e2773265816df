"""What a tracker that manages the conversation has to work with: token counts, limits, and a way to ask the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.schema import Message

if TYPE_CHECKING:
    from astuner.rendering import TemplateRenderer

CHARACTERS_PER_TOKEN = 4
"""Of English text, about; other scripts have about a token per character."""
TOKENS_PER_MESSAGE = 4
"""What a template puts around a message, about."""


class TokenCounter:
    """Counts as the model's template renders; estimates where there is no tokenizer, or for messages that it refuses."""

    def __init__(self, renderer: TemplateRenderer | None) -> None:
        """None is for engines that speak chat and know no token ids."""
        self._renderer = renderer
        self.exact = renderer is not None
        """Whether limits can be relied on."""

    def of_text(self, text: str) -> int:
        """Return the tokens of a text."""
        return _estimate(text) if self._renderer is None else len(self._renderer.encode(text))

    def of_messages(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
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
                # Templates refuse what is no conversation, as an answer alone, and a policy may still want to know its size.
                pass
        return sum(TOKENS_PER_MESSAGE + self.of_text(_text(message)) for message in messages)


@frozen(kw_only=True)
class ContextLimits:
    """What bounds a conversation, in tokens."""

    max_model_len: int
    max_prompt_length: int
    max_response_length: int
    max_answer: int

    def for_first_view(self) -> int:
        """Return the most that the first messages may take."""
        return min(self.max_prompt_length, self._less_answer(self.max_model_len))

    def for_view(self, shortest: int) -> int:
        """Return the most that later messages may take; `shortest` are the tokens of the shortest view so far.

        A view that begins anew is the first prompt of a conversation, after which `max_response_length` tokens may follow.
        """
        return self._less_answer(min(self.max_model_len, shortest + self.max_response_length))

    def _less_answer(self, context: int) -> int:
        return context - min(self.max_answer, context // 2)


def _estimate(text: str) -> int:
    ascii_characters = sum(character < "\x80" for character in text)
    return -(-ascii_characters // CHARACTERS_PER_TOKEN) + len(text) - ascii_characters


def _text(message: Message) -> str:
    parts = [message.get("content"), message.get("reasoning_content"), message.get("tool_calls")]
    return "\n".join(part if isinstance(part, str) else str(part) for part in parts if part)
