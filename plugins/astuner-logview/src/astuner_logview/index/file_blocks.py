"""Reading a file of lines in blocks, from its end too, while it grows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

FIRST_BLOCK = 4 * 2**20
BLOCK = 16 * 2**20
"""Bytes of a block; one with a longer line is as long as that line."""
SAMPLE = 4096
"""Bytes at each end of what is indexed that tell whether it is still the same."""


def find_end(file: int, size: int, floor: int = 0) -> int:
    """Return where the last whole line before `size` ends; `floor` if none ends after it."""
    place = size
    while place > floor:
        start = max(floor, place - 65536)
        found = os.pread(file, place - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        place = start
    return floor


def read_before(file: int, end: int, floor: int, size: int) -> tuple[int, bytes]:
    """Return the whole lines before `end`, about `size` bytes of them and none before `floor`, and where they begin."""
    while True:
        start = max(floor, end - size)
        data = read_exactly(file, start, end - start)
        if start == floor:
            return floor, data
        # The first line is cut, unless the byte before it ends another.
        first = data.find(b"\n") + 1
        if 0 < first < len(data):
            return start + first, data[first:]
        size *= 2


def read_after(file: int, start: int, end: int, size: int) -> bytes:
    """Return the whole lines from `start` on, about `size` bytes of them and none that ends after `end`."""
    while True:
        data = read_exactly(file, start, min(size, end - start))
        last = data.rfind(b"\n") + 1
        if last or len(data) >= end - start:
            return data[:last]
        size *= 2


def read_exactly(file: int, start: int, size: int) -> bytes:
    """Return bytes of a file; raises EOFError if it has become shorter."""
    parts = []
    while size:
        part = os.pread(file, min(size, 2**30), start)
        if not part:
            raise EOFError("the file has become shorter")
        parts.append(part)
        start, size = start + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def split_lines(data: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a block, each with where it begins in the file."""
    place = 0
    while place < len(data):
        end = data.index(b"\n", place) + 1
        yield start + place, data[place:end]
        place = end


def take_sample(file: int, start: int, end: int) -> str:
    """Return a digest of some bytes, with how many there are."""
    return f"{end - start}:{hashlib.sha256(read_exactly(file, start, end - start)).hexdigest()[:32]}"
