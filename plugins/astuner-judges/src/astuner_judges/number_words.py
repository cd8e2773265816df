"""Numbers written as English words."""

from __future__ import annotations

import re

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True))
_VALUES = {word: value for value, word in enumerate(_SMALL)} | _TENS
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6}
_WORD = "|".join(sorted((*_VALUES, *_SCALES), key=len, reverse=True))
_NUMBER = re.compile(rf"\b(?:{_WORD})(?:(?:[\s-]+|\s+and\s+)(?:{_WORD}))*\b", re.IGNORECASE)


def leading_number_word(text: str) -> tuple[int, int] | None:
    """Return the number that a text begins with, and where it ends: `Twenty-one days` gives (21, 10)."""
    match = _NUMBER.match(text)
    return (_value(match[0]), match.end()) if match else None


def number_words_in(text: str) -> list[int]:
    """Return the numbers in a text that are written as words; `one` by itself is mostly a pronoun and is left out."""
    return [_value(match[0]) for match in _NUMBER.finditer(text) if match[0].lower() != "one"]


def _value(words: str) -> int:
    total, current = 0, 0
    for word in re.split(r"[\s-]+", words.lower()):
        if word in _VALUES:
            current += _VALUES[word]
        elif word == "hundred":
            current = max(current, 1) * 100
        elif word in _SCALES:
            total, current = total + max(current, 1) * _SCALES[word], 0
    return total + current
