"""The outline of a large body: what is long in it is measured instead of kept, so that an outline takes little memory."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from json import decoder, scanner
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from astuner.model.http_server import LONGEST_ESCAPE

if TYPE_CHECKING:
    from astuner.model.rendering.prompt_bound import CountBytes

LONGEST_KEPT = 1 << 8
"""Bytes of the longest string that is kept."""

FIRST_PIECE, LARGEST_PIECE = 1 << 10, 1 << 16
"""Bytes of a longer string that are read at once: at first, and at most."""

LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8."""

_skip_blanks = re.compile(r"[ \t\n\r]*").match
_scan: Callable[[str, int, bool], tuple[str, int]] = getattr(decoder, "scanstring")  # noqa: B009 - the stubs lack both
_make_scanner: Callable[[json.JSONDecoder], Any] = getattr(scanner, "py_make_scanner")  # noqa: B009


@frozen(eq=False)
class Measures:
    """The lengths of the strings that an outline does not keep.

    In their place it has marks, which no client can know.
    """

    count: CountBytes
    """Counts the bytes of a text, at least."""
    _sizes: list[int] = field(factory=list, init=False)
    _secret: str = field(factory=lambda: secrets.token_hex(8), init=False)

    def add(self, size: int) -> str:
        """Return the mark of a string of this many bytes."""
        self._sizes.append(size)
        return f"<{self._secret} {len(self._sizes) - 1}>"

    def count_bytes(self, text: str) -> int:
        """Return a number of bytes that a text has at least in which marks stand for strings."""
        if self._secret not in text:
            return self.count(text)
        # Every second one is the number of a mark.
        parts = re.split(f"<{self._secret} ([0-9]+)>", text)
        return sum(map(self.count, parts[::2])) + sum(self._sizes[int(number)] for number in parts[1::2])


class OutlineDecoder(json.JSONDecoder):
    """Reads JSON with marks for long strings and only the beginnings of long lists.

    Each character of the text is a byte of UTF-8, and so are those of the keys.
    """

    def __init__(self, *, measures: Measures, most_items: int, **options: Any) -> None:
        """`most_items` of a list are kept; `options` are those of `json.JSONDecoder`."""
        super().__init__(**options)
        self._measures, self._most_items = measures, most_items
        self.parse_string = self._read_string
        self.parse_array = self._read_list
        self.scan_once = _make_scanner(self)

    def _read_string(self, text: str, begin: int, strict: bool = True) -> tuple[str, int]:
        quote = text.find('"', begin, begin + LONGEST_KEPT + 1)
        if quote >= 0 and text[quote - 1] != "\\":
            return _scan(_decode(text[begin : quote + 1]), 0, strict)[0], quote + 1
        piece, place, ends = _read_piece(text, begin, FIRST_PIECE, strict)
        if ends and len(piece) <= LONGEST_KEPT:
            return piece, place
        measured, size = _Length(self._measures.count), FIRST_PIECE
        measured.add(piece)
        while not ends:
            size = min(2 * size, LARGEST_PIECE)
            piece, place, ends = _read_piece(text, place, size, strict)
            measured.add(piece)
        return self._measures.add(measured.size), place

    def _read_list(self, begun: tuple[str, int], scan_once: Callable[[str, int], tuple[Any, int]]) -> tuple[list[Any], int]:
        text, place = begun
        found: list[Any] = []
        place = _find_next(text, place)
        if text[place : place + 1] == "]":
            return found, place + 1
        while True:
            try:
                value, place = scan_once(text, place)
            except StopIteration as stopped:
                raise json.JSONDecodeError("Expecting value", text, stopped.value) from None
            if len(found) < self._most_items:
                found.append(value)
            place = _find_next(text, place)
            sign = text[place : place + 1]
            if sign == "]":
                return found, place + 1
            if sign != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, place)
            place = _find_next(text, place + 1)


@define
class _Length:
    """The length of a text that comes in pieces, without the blanks at its ends."""

    _count: CountBytes
    size: int = 0
    _blank: int = 0
    """Of the blanks at the end so far."""

    def add(self, piece: str) -> None:
        begun = piece if self.size else piece.lstrip()
        text = begun.rstrip()
        if text:
            self.size += self._blank + self._count(text)
            self._blank = 0
        self._blank += self._count(begun[len(text) :])


def _read_piece(text: str, start: int, size: int, strict: bool) -> tuple[str, int, bool]:
    """Return about `size` bytes of a string, where the text goes on, and whether the string ends there; raises ValueError."""
    for end in range(start + size, start + size + LONGEST_ESCAPE + LONGEST_CHARACTER):
        try:
            piece, length = _scan((cut := _decode(text[start:end])) + '"', 0, strict)
        except ValueError:
            # The end is within a character or an escape, or the string is not valid.
            continue
        if length <= len(cut):
            return piece, start + len(cut[:length].encode("utf-8", "surrogatepass")), True
        if end < len(text) and not "\ud800" <= piece[-1] < "\udc00":
            return piece, end, False
    raise json.JSONDecodeError("Invalid string", text, start)


def _decode(text: str) -> str:
    """Return the text whose bytes in UTF-8 are given as characters."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogatepass")


def _find_next(text: str, place: int) -> int:
    found = _skip_blanks(text, place)
    return place if found is None else found.end()
