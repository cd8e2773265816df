"""The chat template of a tokenizer, without the per-message checks of `apply_chat_template`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.contract.schema import Message


class CompiledTemplate:
    """Renders plain messages as `tokenizer.apply_chat_template(..., tokenize=False)` does, in two thirds of its time.

    That method copies every value that a template sees, since callers may pass images and objects; values from a
    JSON body are copied unchanged. Messages that it would change go through it.
    """

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer` is one of transformers."""
        from transformers.utils import chat_template_utils

        self._tokenizer = tokenizer
        self._compile = _bound_templates(chat_template_utils)
        methods = (tokenizer.apply_chat_template, chat_template_utils.render_jinja_template)
        self._reserved = {"self", "messages"}.union(*(inspect.signature(method).parameters for method in methods))

    def __call__(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        """Return the text of a conversation."""
        variables = self._variables(tools, generate, kwargs)
        if self._compile is None or variables is None or not messages or any(map(_is_rewritten, messages)):
            return str(
                self._tokenizer.apply_chat_template(
                    messages, tools=list(tools) or None, add_generation_prompt=generate, tokenize=False, **kwargs
                )
            )
        return str(self._compile(self._source(tools)).render(messages=messages, **variables))

    def _variables(self, tools: Sequence[Mapping[str, Any]], generate: bool, kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the template's variables besides the messages; None if the tokenizer itself uses an argument."""
        if not self._reserved.isdisjoint(kwargs):
            return None
        known = {"tools": list(tools) or None, "documents": None, "add_generation_prompt": generate}
        return {**self._tokenizer.special_tokens_map, **kwargs, **known}

    def find_largest(self, tools: Sequence[Mapping[str, Any]]) -> float:
        """Return the largest number in the expressions of the template; infinity if they are not known."""
        return inf if self._compile is None else _find_largest(self._source(tools), self._compile)

    def _source(self, tools: Sequence[Mapping[str, Any]]) -> str:
        return str(self._tokenizer.get_chat_template(None, list(tools) or None))


def _bound_templates(utils: Any) -> Any:
    """Let transformers compile templates with bounds, in the whole process; return what compiles them, None if it is unknown."""
    found: Any = getattr(utils, "_compile_jinja_template", None)
    if found is not None and not hasattr(found, "like"):
        from astuner.model.rendering.bounded_templates import compile_template

        like = found("").environment
        found = utils._compile_jinja_template = lru_cache(lambda source: compile_template(source, like))
        found.like = like
    return found


@lru_cache
def _find_largest(source: str, compiled: Any) -> float:
    from jinja2 import nodes

    tree = compiled.like.parse(source)
    named = {id(keyword.value) for keyword in tree.find_all(nodes.Keyword)}
    found = (one.value for one in tree.find_all(nodes.Const) if id(one) not in named)
    return max((abs(value) for value in found if isinstance(value, int | float)), default=0)


def _is_rewritten(message: Message) -> bool:
    """Whether a field would be dropped or passed to the template under additional names."""
    return not _ALIASED.isdisjoint(message) or None in message.values()


_ALIASED = frozenset(("reasoning_content", "reasoning", "thinking"))
