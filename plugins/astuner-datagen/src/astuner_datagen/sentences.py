"""Where sentences and paragraphs end, in English and Chinese: a partition of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]
"""First character, and one after the last."""

_CLOSING = "[\"'”’」』）)\\]】》]*"
_END = re.compile(
    rf"(?P<wide>[。！？；…]+{_CLOSING}\s*)"
    rf"|(?P<mark>[!?]+{_CLOSING}(?:\s+|\Z))"
    rf"|(?P<stop>\.+{_CLOSING}(?:\s+|\Z))"
    r"|(?P<gap>[^\S\n]*\n[^\S\n]*\n\s*)"
)
_PARAGRAPH = re.compile(r"[^\S\n]*\n[^\S\n]*\n\s*")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Nos?|Figs?|Eqs?|Secs?|vs|etc|cf|al|approx|e\.g|i\.e)|\b[A-Z])\.\Z")
_LONGEST_ABBREVIATION = 12


def find_sentences(text: str, start: int = 0, end: int | None = None) -> Iterator[Span]:
    """Yield the spans of sentences, each with the space after it; together they cover the text."""
    end = len(text) if end is None else end
    begin = start
    for found in _END.finditer(text, start, end):
        if found.lastgroup == "stop" and _goes_on(text, found.start(), found.end()):
            continue
        yield begin, found.end()
        begin = found.end()
    if begin < end:
        yield begin, end


def find_paragraphs(text: str) -> Iterator[Span]:
    """Yield the spans of paragraphs, each with the empty lines after it; together they cover the text."""
    begin = 0
    for found in _PARAGRAPH.finditer(text):
        if found.end() > begin:
            yield begin, found.end()
        begin = found.end()
    if begin < len(text):
        yield begin, len(text)


def _goes_on(text: str, stop: int, after: int) -> bool:
    """Whether a full stop ends an abbreviation, or is followed by a word that cannot begin a sentence."""
    before = text[max(0, stop - _LONGEST_ABBREVIATION) : stop + 1]
    return bool(_ABBREVIATION.search(before)) or (after < len(text) and text[after].islower())
