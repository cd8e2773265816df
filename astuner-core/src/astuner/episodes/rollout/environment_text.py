"""Cuts messages of an environment that are too long for the conversation (`context_tracker.max_env_len`)."""

from __future__ import annotations

from collections.abc import Callable

from astuner.contract.schema import Message

CUT = "\n[cut here: {left} of {whole} characters are left out]"
"""What the model sees at the end of a message that was cut."""


def clip_environment_message(message: Message, max_tokens: int, count_tokens: Callable[[str], int]) -> Message:
    """Return a message whose text has at most `max_tokens` tokens, with a mark where it was cut.

    `count_tokens` counts the tokens of a text. A message that is short enough is returned unchanged.
    """
    text = _join_text(message.get("content"))
    if text is None or _fits(text, max_tokens, count_tokens):
        return message
    whole = len(text)
    # The mark counts towards the limit.
    kept = _find_longest_start(text, max_tokens - count_tokens(CUT.format(left=whole, whole=whole)), count_tokens)
    return {**message, "content": kept + CUT.format(left=whole - len(kept), whole=whole)}


def _fits(text: str, room: int, count_tokens: Callable[[str], int]) -> bool:
    # If a prefix is too long, so is the text: an environment may return megabytes.
    length = 8 * room
    while length < len(text):
        if count_tokens(text[:length]) > room:
            return False
        length *= 2
    return count_tokens(text) <= room


def _find_longest_start(text: str, room: int, count_tokens: Callable[[str], int]) -> str:
    """Return the longest prefix of a text that has at most `room` tokens."""
    if room <= 0:
        return ""
    high = 1
    while high < len(text) and count_tokens(text[:high]) <= room:
        high = min(2 * high, len(text))
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count_tokens(text[:middle]) <= room else (low, middle)
    return text[:low]


def _join_text(content: object) -> str | None:
    """Return the text of a content, which may be a list of parts; None if a part is not text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return None
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "\n".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else None
