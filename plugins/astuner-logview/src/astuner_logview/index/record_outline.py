"""Records of the episode store without their arrays of tokens: what an index needs, in a fraction of the time."""

from __future__ import annotations

import json
import re
from typing import Any

from astuner.runs.store.codec import decode_record, unpack_record
from astuner.runs.store.store_lines import check_line, check_record

_ARRAY = re.compile(rb'"(?:prompt_ids|output_ids|logprobs|ids|mask)":\[')
_COUNTED = (b'"output_ids":[', b'"mask":[')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


def read_outline(line: bytes) -> dict[str, Any]:
    """Return the record of a line with the length of each `output_ids` and `mask` in its place, and nothing of use for others.

    Arrays of these names in what users have stored, such as a task's metadata, are shortened too, if they hold numbers alone.
    Raises one of `UNREADABLE` for a damaged line.
    """
    short = shorten_arrays(check_line(line))
    # Only half a surrogate pair needs to be mended; the pattern alone would take most of the time.
    mended = (b"\\u" in short or b"\xed" in short) and _SURROGATE.search(short) is not None
    record: dict[str, Any] = decode_record(short) if mended else json.loads(short)
    record = unpack_record(record, arrays=False)
    check_record(record)
    return record


def shorten_arrays(line: bytes) -> bytes:
    """Return the JSON of a record with arrays of numbers replaced. Inside of a text, quotation marks are escaped."""
    parts, place = [], 0
    while (found := _ARRAY.search(line, place)) is not None:
        start = found.end()
        end = line.find(b"]", start)
        if end < 0:
            break
        # Texts, objects and arrays in an array are not of core.
        if any(line.find(mark, start, end) >= 0 for mark in (b'"', b"[", b"{")):
            parts.append(line[place:start])
            place = start
            continue
        parts.append(line[place : start - 1])
        if found[0] in _COUNTED:
            parts.append(b"%d" % (line.count(b",", start, end) + 1 if end > start else 0))
        else:
            parts.append(b"null")
        place = end + 1
    parts.append(line[place:])
    return b"".join(parts)
