"""System messages in the places in which a chat template takes them, so that a conversation only grows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.contract.schema import Message


def place_system_messages(messages: Sequence[Message], *, many: bool, late: bool) -> list[Message]:
    """Return messages with system messages only where the template shows them.

    Without `many`, those at the beginning become one. Without `late`, each later one becomes a user message in its place:
    in the first one it would change what earlier calls were sampled from. Later ones without text are left out.
    """
    first = count_first_systems(messages)
    begin, rest = list(messages[:first]), messages[first:]
    if first > 1 and not many:
        begin = [{**begin[0], "content": join_texts(*(message["content"] for message in begin))}]
    if late:
        return [*begin, *rest]
    return [*begin, *(_as_user(message) for message in rest if message["role"] != "system" or message["content"].strip())]


def count_first_systems(messages: Sequence[Message]) -> int:
    """Return the number of system messages at the beginning."""
    return sum(1 for _ in takewhile(lambda message: message["role"] == "system", messages))


def join_system_and_user(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the first system message before the text of the user message after it."""
    if not messages or messages[0]["role"] != "system":
        return list(messages)
    text, rest = messages[0]["content"], list(messages[1:])
    if rest and rest[0]["role"] == "user":
        return [{**rest[0], "content": join_texts(text, rest[0]["content"]) if text else rest[0]["content"]}, *rest[1:]]
    return [{"role": "user", "content": text}, *rest]


def join_texts(*texts: str) -> str:
    """Return texts with an empty line between them; empty ones are left out."""
    return "\n\n".join(filter(None, texts))


def _as_user(message: Message) -> Message:
    return {**message, "role": "user"} if message["role"] == "system" else message
