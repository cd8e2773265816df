"""Parsing large JSON in a thread: bit by bit, so that the event loop gets its turn in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import decoder, scanner
from typing import Any

LARGE_BODY = 1 << 18
"""Larger bodies, in bytes, are read in a thread."""

FIRST_PIECE = 1 << 12
"""Characters of a string that are read at once, at first."""

LARGEST_PIECE = 1 << 20
"""Characters of a string that are read at once: a few milliseconds, in which nothing else runs."""

LONGEST_ESCAPE = 12
"""Characters of a character beyond the basic plane, written as two escapes."""


_scan: Callable[[str, int, bool], tuple[str, int]] = getattr(decoder, "scanstring")  # noqa: B009 - the stubs lack both
_make_scanner: Callable[[json.JSONDecoder], Any] = getattr(scanner, "py_make_scanner")  # noqa: B009


class PatientDecoder(json.JSONDecoder):
    r"""Reads what `json.JSONDecoder` reads; that one holds Python's lock from the first byte to the last."""

    def __init__(self, **options: Any) -> None:
        """Take the options of `json.JSONDecoder`."""
        super().__init__(**options)
        self.parse_string = scan_string
        self.scan_once = _make_scanner(self)


def load_json(raw: bytes | bytearray) -> Any:
    """Parse a body as `json.loads` does; in a thread if it is larger than `LARGE_BODY`, where other threads run meanwhile."""
    return json.loads(raw, cls=PatientDecoder if len(raw) > LARGE_BODY else None)


def scan_string(text: str, begin: int, strict: bool = True) -> tuple[str, int]:
    """Return the string that begins behind a quote, and where the text goes on, as `json.decoder.scanstring` does."""
    quote = text.find('"', begin, begin + FIRST_PIECE)
    if quote > begin and text[quote - 1] != "\\":
        return _scan(text, begin, strict)
    pieces: list[str] = []
    start, size = begin, FIRST_PIECE
    while len(text) - start > size:
        for end in range(start + size, start + size + LONGEST_ESCAPE):
            try:
                piece, length = _scan(text[start:end] + '"', 0, strict)
            except json.JSONDecodeError:
                # The cut is inside an escape; if it is not, the error is raised below, with its place.
                continue
            if length <= end - start:
                return "".join([*pieces, piece]), start + length
            if not "\ud800" <= piece[-1] < "\udc00":
                pieces.append(piece)
                start, size = end, min(2 * size, LARGEST_PIECE)
                break
        else:
            break
    piece, end = _scan(text, start, strict)
    return "".join([*pieces, piece]), end
