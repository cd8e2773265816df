"""The arrays of an episode as one compressed text, bit for bit: ids, positions that are trained, and log-probabilities."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

_INTEGERS = (("calls", "prompt_ids"), ("calls", "output_ids"), ("samples", "ids"), ("samples", "mask"))
_FLOATS = (("calls", "logprobs"), ("samples", "logprobs"))
LARGEST = 1 << 30
"""Bytes of what one text holds; a file of a stranger could hold a thousand times its size."""
_LONG = 256
"""Bytes from which on statistics of their own gain more than they take."""


def pack_arrays(episode: dict[str, Any]) -> str:
    """Replace the arrays of a dumped episode by their lengths, and return what they hold as one text."""
    planes = []
    for fields, kind in ((_INTEGERS, "<i4"), (_FLOATS, "<f4")):
        places = _find_places(episode, fields)
        values = np.concatenate([np.empty(0, kind), *(holder[name] for holder, name in places)], dtype=kind, casting="unsafe")
        for holder, name in places:
            holder[name] = len(holder[name])
        # All lowest bytes first, then those above: each place has statistics of its own.
        planes += [plane.tobytes() for plane in values.view(np.uint8).reshape(-1, 4).T]
    return pack_bytes(*planes)


def pack_bytes(*parts: bytes) -> str:
    """Return parts as one compressed text."""
    packer = zlib.compressobj(wbits=-15)
    ends = [zlib.Z_SYNC_FLUSH if len(part) >= _LONG else zlib.Z_NO_FLUSH for part in parts]
    packed = [packer.compress(part) + packer.flush(end) for part, end in zip(parts, ends, strict=True)]
    return b64encode(b"".join((*packed, packer.flush()))).decode()


def unpack_bytes(packed: str) -> bytes:
    """Return what `pack_bytes` packed; raises ValueError for anything else, and for what is larger than an episode."""
    opened = zlib.decompressobj(wbits=-15)
    try:
        found = opened.decompress(b64decode(packed, validate=True), LARGEST)
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error
    if not opened.eof:
        raise ValueError(f"it is cut off, or holds more than {LARGEST:,} bytes")
    return found


def unpack_arrays(episode: dict[str, Any], packed: str) -> None:
    """Undo `pack_arrays`; raises ValueError if the lengths are not those of what was packed."""
    arrays = unpack_bytes(packed)
    for fields, kind in ((_INTEGERS, "<i4"), (_FLOATS, "<f4")):
        places = _find_places(episode, fields)
        ends = np.cumsum([0, *(holder[name] for holder, name in places)]).tolist()
        size = 4 * ends[-1]
        if size > len(arrays):
            raise ValueError("it has fewer tokens than it says")
        planes, arrays = np.frombuffer(arrays[:size], np.uint8).reshape(4, ends[-1]), arrays[size:]
        values = np.ascontiguousarray(planes.T).view(kind).ravel()
        for (holder, name), start, end in zip(places, ends, ends[1:], strict=False):
            holder[name] = values[start:end]
    if arrays:
        raise ValueError("it has more tokens than it says")


def _find_places(episode: dict[str, Any], fields: Sequence[tuple[str, str]]) -> list[tuple[dict[str, Any], str]]:
    return [(one, name) for group, name in fields for one in episode[group]]
