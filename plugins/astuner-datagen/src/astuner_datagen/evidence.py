"""Whether a quotation appears in a text, ignoring changes to spaces, quotes, dashes and markup."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from functools import lru_cache

SHORTEST = 4
"""Least significant characters of a quotation; a shorter one would appear in any text."""

_LEFT_OUT = re.compile(r"\.\.\.+|\[\.\.\.+\]")
_MARKUP = frozenset("*_`~#|\"'<>«»“”„‘’")
_UNSEEN = ("Z", "C", "Pd")
"""Categories of spaces, controls (soft hyphens among them) and dashes, where lines may break."""


@lru_cache(maxsize=256)
def to_plain(text: str) -> str:
    """Return a text without case, spaces, quotes, dashes and the marks of markdown; numbers keep their points and commas."""
    return "".join(
        letter
        for letter in unicodedata.normalize("NFKC", text).casefold()
        if letter not in _MARKUP and not unicodedata.category(letter).startswith(_UNSEEN)
    )


def occurs(quotation: str, text: str) -> bool:
    """Whether a quotation appears in a text; one with omissions, `…`, by its parts in their order."""
    whole, at = to_plain(text), 0
    parts = [part for part in (to_plain(part) for part in _LEFT_OUT.split(unicodedata.normalize("NFKC", quotation))) if part]
    for part in parts:
        found = whole.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return bool(parts)


def is_same_answer(one: str, other: str) -> bool:
    """Whether two answers differ only in spelling: the same plain text, or numbers of the same value."""
    first, second = to_plain(one).rstrip("."), to_plain(other).rstrip(".")
    if first == second:
        return True
    numbers = _parse_number(first), _parse_number(second)
    return numbers[0] is not None and numbers[0] == numbers[1]


def _parse_number(text: str) -> Decimal | None:
    try:
        found = Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None
