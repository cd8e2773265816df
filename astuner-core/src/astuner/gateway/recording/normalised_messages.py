"""Caches an episode's normalised messages, so that a growing conversation is not normalised again with every request."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from attrs import define, field

from astuner.gateway.recording.messages import normalise
from astuner.schema import Message

KEPT = 16
"""Number of cached conversations."""


@define(eq=False)
class MessageReader:
    """Normalises messages as `messages.normalise` does, returning those of an earlier request as the same objects."""

    _kept: OrderedDict[str, tuple[list[Any], tuple[Message, ...]]] = field(factory=OrderedDict, init=False)

    def __call__(self, messages: Any) -> tuple[Message, ...]:
        """Return the messages of a request, normalised; raises ApiError (400) as `normalise` does."""
        key = _make_key(messages)
        if key is None:
            return normalise(messages)
        raw, known = self._kept.get(key, ([], ()))
        if messages[: len(raw)] != raw:
            known = ()
        found = normalise(messages, known)
        exact = _count_exact(messages, len(known))
        self._kept[key] = (messages[:exact], found[:exact])
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found


def _make_key(messages: Any) -> str | None:
    """Return a key that identifies a conversation: the content of its first two messages."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages[:2]):
        return None
    return repr([message.get("content") for message in messages[:2]])


def _count_exact(messages: list[Any], start: int) -> int:
    """Count the messages whose equality implies equal text: in JSON arguments 1 equals `true`, but is another text."""
    for place in range(start, len(messages)):
        for call in messages[place].get("tool_calls") or ():
            if not isinstance(call.get("id"), str | None) or not isinstance(call["function"].get("arguments"), str | None):
                return place
    return len(messages)
