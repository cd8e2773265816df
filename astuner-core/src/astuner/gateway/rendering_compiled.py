"""The chat template of a tokenizer without the checks that `apply_chat_template` makes of every message."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.schema import Message


class CompiledTemplate:
    """Renders plain messages as `tokenizer.apply_chat_template(..., tokenize=False)` does, in two thirds of its time.

    That method copies every value that a template sees, since callers may pass images and objects; what comes out of
    a JSON body is copied unchanged. Messages that it would change go through it.
    """

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer` is one of transformers."""
        from transformers.utils import chat_template_utils

        self._tokenizer = tokenizer
        self._compile = getattr(chat_template_utils, "_compile_jinja_template", None)
        self._reserved = frozenset(inspect.signature(tokenizer.apply_chat_template).parameters)

    def __call__(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        """Return the text of a conversation."""
        tokenizer, shown = self._tokenizer, list(tools) or None
        special = not self._reserved.isdisjoint(kwargs) or any(map(_changed, messages))
        if self._compile is None or not messages or special:
            return str(
                tokenizer.apply_chat_template(messages, tools=shown, add_generation_prompt=generate, tokenize=False, **kwargs)
            )
        template = self._compile(tokenizer.get_chat_template(None, shown))
        variables = {**tokenizer.special_tokens_map, **kwargs}
        return str(template.render(messages=messages, tools=shown, documents=None, add_generation_prompt=generate, **variables))


def _changed(message: Message) -> bool:
    """Whether a field would be dropped, or be given to the template under further names."""
    return not _ALIASED.isdisjoint(message) or None in message.values()


_ALIASED = frozenset(("reasoning_content", "reasoning", "thinking"))
