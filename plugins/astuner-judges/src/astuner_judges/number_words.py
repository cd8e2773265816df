"""Numbers written as English words: `twenty-one`, `minus four`, `two thirds`, `four and a half`."""

from __future__ import annotations

import re
from fractions import Fraction

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
_PARTS = {
    name: value
    for value, name in enumerate(("half", "third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"), 2)
} | {"halves": 2, "fourth": 4, "hundredth": 100, "thousandth": 1000}
_WORD = "|".join(sorted((*_VALUES, *_SCALES), key=len, reverse=True))
_PART = "half|halves|(?:third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)"
_NUMBER = re.compile(
    rf"""(?:\b(?P<minus>minus|negative)\s+)?\b(?P<words>(?:{_WORD})\b(?:[\s-]+(?:and\s+)?(?:{_WORD})\b)*)
    (?:\s+and\s+(?:a|one)[\s-](?P<rest>{_PART})\b|[\s-]+(?P<part>(?<=one.){_PART}|halves|(?:{_PART})s)\b(?!\s+of\b))?""",
    re.IGNORECASE | re.VERBOSE,
)
_FRACTION = re.compile(r"(?:a[\s-])?(half)\b|a[\s-](third|quarter)\b", re.IGNORECASE)
_DENIED = re.compile(
    r"(?:\b(?:not|never|cannot|nicht|kein|no\s+(?:es|son|è|é)|pas|не)|n't|\b(?:neither|nor)|\banything\s+but|\b(?:other\s+than|different\s+from)|不是)"
    r"(?:\s+(?:equal\s+to|be|exactly|simply))?\s*$",
    re.IGNORECASE,
)
_LAST_WORDS = tuple("not n't nor neither never nicht kein es son è é pas не 不是 but than from to be ly".split())  # noqa: SIM905
"""What ends a text that `_DENIED` may match, so that most texts are not searched."""


def is_denied(text: str, start: int) -> bool:
    """Whether what a text says at a place is what something is not: `The answer is not 4`."""
    before = text[max(0, start - 24) : start]
    return before.rstrip().lower().endswith(_LAST_WORDS) and _DENIED.search(before) is not None


def parse_leading_number_word(text: str) -> tuple[Fraction, int] | None:
    """Return the number at the start of a text, and its end: `Twenty-one days` gives (21, 10)."""
    match = _NUMBER.match(text)
    if match is None and (part := _FRACTION.match(text)) and not text.startswith(" of", part.end()):
        return Fraction(1, _PARTS[(part[1] or part[2]).lower()]), part.end()
    if match is None or text.startswith(" of", match.end()) or is_operand(text, 0, match.end()):
        return None
    return _value(match), match.end()


def find_number_words(text: str) -> list[Fraction]:
    """Return the numbers in a text that are written as words; `one` alone is mostly a pronoun and left out."""
    found = (match for match in _NUMBER.finditer(text) if match[0].lower() != "one")
    return [
        _value(match)
        for match in found
        if not is_operand(text, match.start(), match.end()) and not is_denied(text, match.start())
    ]


def _value(match: re.Match[str]) -> Fraction:
    value = Fraction(_whole(match["words"]))
    if match["part"]:
        value /= _PARTS.get(match["part"].lower()) or _PARTS[match["part"].lower().removesuffix("s")]
    if match["rest"]:
        value += Fraction(1, _PARTS[match["rest"].lower()])
    return -value if match["minus"] else value


def _whole(words: str) -> int:
    total, current = 0, 0
    for word in re.split(r"[\s-]+", words.lower()):
        if word in _VALUES:
            current += _VALUES[word]
        elif word == "hundred":
            current = max(current, 1) * 100
        elif word in _SCALES:
            total, current = total + max(current, 1) * _SCALES[word], 0
    return total + current
