"""Numbers written as English words."""

from __future__ import annotations

import re

from astuner_judges.expressions import is_operand

_VALUES = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6}
_WORD = "|".join(sorted((*_VALUES, *_SCALES), key=len, reverse=True))
_NUMBER = re.compile(rf"\b(?:{_WORD})\b(?:(?:[\s-]+(?:and\s+)?)(?:{_WORD})\b)*", re.IGNORECASE)


def parse_leading_number_word(text: str) -> tuple[int, int] | None:
    """Return the number at the start of a text, and its end: `Twenty-one days` gives (21, 10)."""
    match = _NUMBER.match(text)
    return (_value(match[0]), match.end()) if match and not is_operand(text, 0, match.end()) else None


def find_number_words(text: str) -> list[int]:
    """Return the numbers in a text that are written as words; `one` alone is mostly a pronoun and left out."""
    found = (match for match in _NUMBER.finditer(text) if match[0].lower() != "one")
    return [_value(match[0]) for match in found if not is_operand(text, match.start(), match.end())]


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
