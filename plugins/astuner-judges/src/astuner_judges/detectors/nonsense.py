"""The detector `nonsense`: an answer that repeats itself far more than ordinary text or code.

There are two kinds: a loop, in which one piece follows itself without a gap, and an answer of many lines or sentences of
which nearly all are the same few. Both need some length, since separators, tables, grids of zeros, refrains and repeated
markup are ordinary; an answer that only its token limit ended needs less.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from attrs import field, frozen
from attrs.validators import ge

from astuner.contract.protocols import Sampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

ANCHOR = 64
"""Length of the text that is searched for again to find the period of a loop."""

LONGEST_PIECE = 2000
"""Characters of the longest repeated piece; keeps the search linear."""

FEWEST_TIMES = 6
"""Fewest repetitions of a piece; fewer are a refrain."""

ONE_MARK_CUT = 500
"""Least length of a run of one non-alphanumeric character at the end of a cut answer; no horizontal rule is as long."""

FEWEST_LINES = 100
"""Fewest lines and sentences of an answer in which nearly all are the same few."""

DISTINCT_SHARE = 0.05
"""Largest share of distinct ones among them."""

FEWEST_LETTERS = 6
"""Fewest distinct letters in the most frequent of them."""

MOST_OCCURRENCES = 4
"""Number of occurrences of an anchor to try: the repeated piece may contain it more than once."""

_SENTENCE_ENDS = (". ", "! ", "? ", "。", "！", "？", "। ", "؟ ")


@frozen(kw_only=True)
class Loop:
    """A piece of text that follows itself without a gap."""

    piece: str
    start: int
    length: int
    """Characters, the last piece possibly cut."""

    @property
    def times(self) -> int:
        """Number of complete repetitions."""
        return self.length // len(self.piece)


class Nonsense:
    """Finds endless repetition. Linear in the length of the text and independent of its language: it compares characters."""

    @frozen(kw_only=True)
    class Options:
        """How long a repetition must be."""

        min_chars: int = field(default=4000, validator=ge(FEWEST_TIMES * ANCHOR))
        """Characters of repetition in an answer that ended on its own."""
        min_chars_cut: int = field(default=2500, validator=ge(FEWEST_TIMES * ANCHOR))
        """Characters of repetition up to the end of an answer that only the token limit ended."""

    def __init__(self, options: Options | None = None) -> None:
        """Keep the lengths."""
        self._options = options or self.Options()

    def look(self, output: Sampled) -> str | None:
        """Return the repeated piece and its number of repetitions."""
        text, loop = output.text, None
        cut = output.call.finish_reason in ("length", "context")
        if cut:
            # A text cut inside a character ends with a replacement character.
            loop = find_loop_at_end(text.rstrip("\ufffd"), self._options.min_chars_cut)
        if loop is None and len(text) >= self._options.min_chars:
            loop = find_loop_inside(text, self._options.min_chars)
        if loop is not None:
            return f"{_quote(loop.piece)} {loop.times} times in a row, over {loop.length} characters"
        least = self._options.min_chars_cut if cut else self._options.min_chars
        return find_same_few(text) if len(text) >= least else None


def find_loop_at_end(text: str, least: int) -> Loop | None:
    """Return the loop that ends a text, if it takes `least` characters, or fewer for a single mark."""
    if len(text) < min(least, ONE_MARK_CUT):
        return None
    characters, place = _characters(text), len(text) - ANCHOR
    anchor, first, found = text[place:], max(0, place - LONGEST_PIECE), place
    for _ in range(MOST_OCCURRENCES):
        found = text.rfind(anchor, first, found + ANCHOR - 1)
        if found < 0:
            return None
        loop = _loop_around(characters, text, found, place - found)
        enough = ONE_MARK_CUT if len(loop.piece) == 1 and not loop.piece.isalnum() else least
        if loop.length >= enough and loop.times >= FEWEST_TIMES:
            return loop
        found = min(found, loop.start)
    return None


def find_loop_inside(text: str, least: int) -> Loop | None:
    """Return the first loop of at least `least` characters, anywhere in the text."""
    characters = None
    # A loop of that length covers several of these places, and each is found again one piece later.
    for place in range(0, len(text) - ANCHOR, least // 4):
        anchor, last, found = text[place : place + ANCHOR], place + LONGEST_PIECE + ANCHOR, place
        for _ in range(MOST_OCCURRENCES):
            found = text.find(anchor, found + 1, last)
            if found < 0:
                break
            characters = _characters(text) if characters is None else characters
            loop = _loop_around(characters, text, place, found - place)
            if loop.length >= least and loop.times >= FEWEST_TIMES:
                return loop
            # Skip repetitions inside the piece.
            found = max(found, loop.start + loop.length - ANCHOR)
    return None


def find_same_few(text: str) -> str | None:
    """Return the evidence if a text has many lines and sentences that are nearly all the same few, else None."""
    for end in _SENTENCE_ENDS:
        text = text.replace(end, f"{end}\n")
    counted = Counter(piece for piece in map(str.strip, text.splitlines()) if piece)
    total = counted.total()
    if total < FEWEST_LINES or len(counted) > DISTINCT_SHARE * total:
        return None
    [(most, times)] = counted.most_common(1)
    # Grids of numbers, symbols and empty markup repeat their lines; sentences do not.
    if len({character for character in most if character.isalpha()}) < FEWEST_LETTERS:
        return None
    return f"{len(counted)} different ones among {total} lines and sentences; {_quote(most)} {times} times"


def _loop_around(characters: NDArray[np.uint32], text: str, place: int, period: int) -> Loop:
    """Return the longest stretch around a place in which each character is the same as the one a period later."""
    breaks = np.flatnonzero(characters[period:] != characters[:-period])
    after = int(np.searchsorted(breaks, place))
    start = int(breaks[after - 1]) + 1 if after else 0
    end = (int(breaks[after]) if after < len(breaks) else len(characters) - period) + period
    return Loop(piece=text[start : start + period], start=start, length=end - start)


def _characters(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _quote(piece: str) -> str:
    return repr(piece if len(piece) <= 80 else f"{piece[:80]}…")
