"""A lower bound on the tokens of a conversation: one that is too long is recognised before it is rendered."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.model.rendering.errors import ApiError
from astuner.model.rendering.length_bound import LengthBound
from astuner.model.rendering.shape_probes import PROBE

if TYPE_CHECKING:
    from astuner.contract.schema import Message

CountBytes = Callable[[str], int]
"""Returns a number of bytes that a text has at least, as `LengthBound.count_bytes` does."""

Render = Callable[[Sequence["Message"], Sequence[Mapping[str, Any]]], str]
"""Returns the text of a conversation with tools; raises ApiError to refuse it."""

USERS = 3
"""User messages of a conversation on which a template is tried."""


@frozen(kw_only=True)
class PromptBound:
    """What bounds the number of a conversation's tokens from below."""

    text: LengthBound
    marks: int
    """Special tokens between one user message and the next, at least. 0 if there may be none, or if the template may drop
    messages that repeat others."""
    describes_tools: bool
    """Whether the descriptions of tools are part of the prompt."""
    joins_users: bool = False
    """Whether user messages without an answer between them become one, with no special token between them."""

    def count_at_least(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], count_bytes: CountBytes) -> int:
        """Return a number of tokens that a conversation has at least, once it is rendered.

        Answers do not count: a template may drop the reasoning in them.
        """
        users = [count_bytes(message["content"].strip()) for message in messages if message["role"] == "user"]
        # Rendering refuses a conversation that lacks the text of one of these.
        parts = [count_bytes(message["content"].strip()) for message in messages if message["role"] not in ("user", "assistant")]
        if self.describes_tools:
            parts += [count_bytes(text) for text in map(_get_description, tools) if isinstance(text, str)]
        longest = self.text.count_tokens(max(*parts, *users, 0, 0))
        if not self.marks:
            return longest
        return max(longest, self.text.count_tokens(sum(users)) + self.marks * max(0, self._count_turns(messages) - 1))

    def _count_turns(self, messages: Sequence[Message]) -> int:
        """Count the user messages, or the groups of them that become one."""
        roles = [message["role"] for message in messages if message["role"] in ("user", "assistant")]
        turns = zip(roles, ["", *roles], strict=False) if self.joins_users else ((role, "") for role in roles)
        return sum(role == "user" != before for role, before in turns)


def find_prompt_bound(render: Render, text: LengthBound, added: Mapping[int, Any], *, joins_users: bool = False) -> PromptBound:
    """Try a template on a few conversations.

    `added` are the tokens added to the tokenizer's vocabulary, by id, with their flags; `joins_users` is PromptBound's.
    """
    function = {"name": "x", "description": PROBE, "parameters": {"type": "object", "properties": {}}}
    shown = _try(render, [{"role": "user", "content": "x"}], [{"type": "function", "function": function}])
    marks = _count_marks(render, added, joins_users)
    return PromptBound(text=text, marks=marks, describes_tools=PROBE in (shown or ""), joins_users=joins_users)


def _count_marks(render: Render, added: Mapping[int, Any], joins_users: bool) -> int:
    """Return how many special tokens a template puts between two user messages, whatever else is between them, at least."""
    cutting = [token.content for token in added.values() if token.special and not token.normalized and not token.single_word]
    if not cutting:
        return 0
    marks = re.compile("|".join(map(re.escape, sorted(cutting, key=len, reverse=True))))
    function = {"name": "x", "arguments": "{}"}
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "123456789", "type": "function", "function": function}]}
    result = {"role": "tool", "content": "x", "tool_call_id": "123456789", "name": "x"}
    answer = {"role": "assistant", "content": "x"}
    found: list[int] = []
    for between in (*([] if joins_users else [()]), (answer,), (call, result), (call, result, answer)):
        user = {"role": "user", "content": PROBE}
        text = _try(render, [*((user, *between) * (USERS - 1)), user], ())
        if text is not None:
            inner = text.split(PROBE)[1:-1]
            found += [len(marks.findall(part)) for part in inner] if len(inner) == USERS - 1 else [0]
    return min(found, default=0)


def _try(render: Render, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the text of a conversation; None if the template refuses such conversations, whatever their length."""
    try:
        return render(messages, tools)
    except ApiError:
        return None


def _get_description(tool: Mapping[str, Any]) -> Any:
    function = tool.get("function")
    return function.get("description") if isinstance(function, Mapping) else None
