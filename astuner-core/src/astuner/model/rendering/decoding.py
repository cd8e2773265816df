"""Turns sampled ids into text as they arrive: never half a character, never past a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

LONGEST_WAIT = 16
"""Tokens to wait for a character to complete; every valid one takes fewer."""


class TextStream:
    """Decodes ids incrementally; emitted text is final."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        """`decode` gives the whole text of a sequence of ids."""
        self._decode = decode
        self._context: list[int] = []
        self._waiting: list[int] = []

    @property
    def waits(self) -> bool:
        """Whether the last ids are part of a character that is not complete."""
        return bool(self._waiting)

    def feed(self, ids: Sequence[int]) -> str:
        """Return the text that is complete after these ids."""
        self._waiting += ids
        before = len(self._decode(self._context))
        whole = text = self._text(len(self._waiting))
        end = len(self._waiting)
        while text.endswith("\ufffd"):
            end -= 1
            if end == 0 or len(self._waiting) - end > LONGEST_WAIT:
                if len(self._waiting) <= LONGEST_WAIT:
                    return ""
                end, text = len(self._waiting), whole
                break
            text = self._text(end)
        self._context, self._waiting = self._waiting[:end], self._waiting[end:]
        return text[before:]

    def finish(self) -> str:
        """Return the held-back text, broken characters included."""
        before = len(self._decode(self._context))
        rest = self._text(len(self._waiting))[before:]
        self._context, self._waiting = [], []
        return rest

    def _text(self, end: int) -> str:
        # Decoded together with the ids before them: some tokenizers drop the space at the start of a text.
        return self._decode(self._context + self._waiting[:end])


class StopFinder:
    """Cuts a text at the first of its stop strings."""

    def __init__(self, stops: Sequence[str]) -> None:
        """With empty `stops` every text passes."""
        self._stops = tuple(stops)
        self._held = ""
        self.found = False
        self.reached: str | None = None
        """The stop string that was found."""
        self.passed = 0
        """Characters that lie before a stop string or, until one is found, cannot belong to one."""

    def feed(self, text: str) -> str:
        """Return the text known to lie before a stop string."""
        if not self._stops:
            self.passed += len(text)
            return text
        self._held += text
        places = [(place, stop) for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if places:
            self.found = True
            end, self.reached = min(places)
        else:
            end = len(self._held) - partial_marker_length(self._held, self._stops)
        passed, self._held = self._held[:end], self._held[end:]
        self.passed += len(passed)
        return passed

    def finish(self) -> str:
        """Return the text held back because it could have become a stop string."""
        rest = "" if self.found else self._held
        self._held = ""
        self.passed += len(rest)
        return rest


def partial_marker_length(text: str, markers: Sequence[str]) -> int:
    """Return the length of the longest suffix of the text that is a proper prefix of a marker."""
    longest = 0
    for marker in markers:
        tail = text[max(0, len(text) - len(marker) + 1) :]
        # Most texts end without the first character of any marker.
        place = tail.find(marker[:1])
        while place >= 0 and not marker.startswith(tail[place:]):
            place = tail.find(marker[:1], place + 1)
        longest = max(longest, len(tail) - place if place >= 0 else 0)
    return longest
