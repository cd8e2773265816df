"""Conversations that were rendered lately, so that a call renders what it adds to one and not the whole of it again."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from astuner.gateway.rendering_compiled import CompiledTemplate
from astuner.gateway.rendering_losses import find_contents
from astuner.gateway.rendering_shape import CALL_FIELDS, FIELDS, FUNCTION_FIELDS, Preparation, TemplateShape

if TYPE_CHECKING:
    from astuner.gateway.rendering_steps import Steps
    from astuner.schema import Message


SHORTEST = 8
"""Messages below which a conversation is rendered whole: that takes less time than to begin with steps."""


@frozen(kw_only=True, eq=False)
class _Conversation:
    key: Hashable
    messages: tuple[Message, ...]
    preparation: Preparation
    seen: list[Message]
    """The messages as the template sees them."""
    steps: Steps
    found: list[int]
    """Where in the text each message was found: see `find_contents`."""
    size: int
    """Bytes of the text."""


@define(eq=False)
class RenderedConversations:
    """Renders as the template does; remembers some conversations, and forgets the least used.

    A message that was seen is never written to again by anyone.
    """

    template: CompiledTemplate
    shape: TemplateShape
    most: int = 256
    """Conversations."""
    most_bytes: int = 32 << 20
    """Of their texts."""
    _kept: OrderedDict[_Conversation, None] = field(factory=OrderedDict, init=False)
    _by_key: dict[Hashable, list[_Conversation]] = field(factory=lambda: defaultdict(list), init=False)
    _size: int = field(default=0, init=False)

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], generate: bool, kwargs: Mapping[str, Any]
    ) -> str | None:
        """Return the text of a conversation; None where it must be rendered whole, which also says what is wrong with it."""
        try:
            return self._render(tuple(messages), tools, generate, kwargs)
        except Exception:  # noqa: BLE001 - whatever it is, the whole rendering meets it again, and is answerable for it
            return None

    def _render(
        self, messages: tuple[Message, ...], tools: Sequence[Mapping[str, Any]], generate: bool, kwargs: Mapping[str, Any]
    ) -> str | None:
        if len(messages) < max(SHORTEST, 1):
            return None
        template, variables = self.template.in_steps(tools), self.template.variables(tools, generate, kwargs)
        if template is None or variables is None:
            return None
        key = (template, template.tells_generation and generate, *(message["content"] for message in messages[:2]))
        earlier, same = self._nearest(key, messages)
        if not all(map(self._is_plain, messages[same:])):
            return None
        if earlier is None:
            preparation, seen, prepared = Preparation(self.shape), [], 0
        else:
            preparation, prepared = earlier.preparation.until(messages, same)
            seen = earlier.seen[: len(preparation.messages)]
        shared = len(seen)
        for message in messages[prepared:]:
            preparation.add(message)
        for message in preparation.messages[shared:]:
            as_seen = self.template.seen(message)
            if as_seen is None:
                return None
            seen.append(as_seen)
        steps = template.render(variables, seen, None if earlier is None else earlier.steps, shared)
        if steps is None:
            return None
        # What no tokenizer can encode is refused with the whole; the text shared with an earlier one could be encoded.
        steps.text[steps.shared :].encode()
        known = [] if earlier is None else earlier.found[: bisect_right(earlier.found, steps.shared, hi=same)]
        found = find_contents(messages, steps.text, known)
        if earlier is not None and same == len(messages):
            # Nothing new: the earlier one says all of it, and may say more.
            self._kept.move_to_end(earlier)
        elif steps.entry is not None:
            if earlier is not None:
                # Equal messages of later requests are not kept beside those of the first.
                messages = (*earlier.messages[:same], *messages[same:])
                if same == len(earlier.messages):
                    self._forget(earlier)
            size = sys.getsizeof(steps.text)
            self._keep(
                _Conversation(key=key, messages=messages, preparation=preparation, seen=seen, steps=steps, found=found, size=size)
            )
        return steps.text

    def _is_plain(self, message: Message) -> bool:
        """Whether a message that is equal to this one is also written as this one.

        `1`, `1.0` and `True` are equal, texts only to themselves; and what has but known fields is shown in one order.
        """
        calls = message.get("tool_calls", [])
        return (
            _texts(message, FIELDS, but="tool_calls")
            and type(calls) is list
            and all(_texts(call, CALL_FIELDS, but="function") and _texts(call["function"], FUNCTION_FIELDS) for call in calls)
            and (self.shape.many_calls or len(calls) < 2)
        )

    def _nearest(self, key: Hashable, messages: tuple[Message, ...]) -> tuple[_Conversation | None, int]:
        """Return the conversation that begins with the most of these messages, and how many."""
        nearest, most = None, 0
        for conversation in self._by_key.get(key, ()):
            same = _same(conversation.messages, messages)
            if same > most:
                nearest, most = conversation, same
        return nearest, most

    def _keep(self, conversation: _Conversation) -> None:
        self._kept[conversation] = None
        self._by_key[conversation.key].append(conversation)
        self._size += conversation.size
        while len(self._kept) > self.most or self._size > self.most_bytes:
            self._forget(next(iter(self._kept)))

    def _forget(self, conversation: _Conversation) -> None:
        del self._kept[conversation]
        others = self._by_key[conversation.key]
        others.remove(conversation)
        if not others:
            del self._by_key[conversation.key]
        self._size -= conversation.size


def _same(earlier: tuple[Message, ...], later: tuple[Message, ...]) -> int:
    """Return how many messages two conversations begin with are the same."""
    shared = min(len(earlier), len(later))
    # Most often one goes on with the other, or they part early.
    if earlier[shared - 1] == later[shared - 1] and earlier[:shared] == later[:shared]:
        return shared
    return next((number for number, pair in enumerate(zip(earlier, later, strict=False)) if pair[0] != pair[1]), shared)


def _texts(mapping: Any, fields: Sequence[str], but: str = "") -> bool:
    return type(mapping) is dict and all(key in fields and (key == but or type(value) is str) for key, value in mapping.items())
