"""How much of their replies the siblings of a group have in common, of whole texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import Any

from astuner.contract.schema import Episode
from astuner_logview.index.message_text import read_content, read_reasoning


def count_shared_characters(texts: Sequence[str]) -> int:
    """Return how many characters all texts begin with, counted as JavaScript does: in UTF-16 units."""
    start = commonprefix(list(texts))  # noqa: RUF071 - texts, of which it compares the characters
    return len(start.encode("utf-16-le", "surrogatepass")) // 2


def count_shared_replies(episodes: Sequence[Episode]) -> list[dict[str, int]]:
    """Return for each turn how much of the reasoning and of the content of its reply all siblings have.

    A sibling without any turn does not count. Where only one sibling is left there is nothing to share.
    """
    with_calls = [episode.calls for episode in episodes if episode.calls]
    longest = max(map(len, with_calls), default=0)
    return [_count_shared([calls[turn].reply if turn < len(calls) else None for calls in with_calls]) for turn in range(longest)]


def _count_shared(replies: Sequence[Mapping[str, Any] | None]) -> dict[str, int]:
    known = [reply for reply in replies if reply is not None]
    if len(known) < max(2, len(replies)):
        return {"reasoning": 0, "content": 0}
    reasoning = [read_reasoning(reply) or "" for reply in known]
    # The content comes after the reasoning: it is shared if all that comes before it is.
    content = [read_content(reply.get("content")) for reply in known] if len(set(reasoning)) == 1 else []
    return {"reasoning": count_shared_characters(reasoning), "content": count_shared_characters(content)}
