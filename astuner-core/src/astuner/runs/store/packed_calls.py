"""What the calls and the samples of an episode hold as one text at the end of its line: messages and arrays, bit for bit."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_INTEGERS = (("calls", "prompt_ids"), ("calls", "output_ids"), ("samples", "ids"), ("samples", "mask"))
_FLOATS = (("calls", "logprobs"), ("samples", "logprobs"))
_LONG = 256
"""Bytes from which on statistics of their own gain more than they take."""


def pack_calls(episode: dict[str, Any], encode: Callable[[dict[str, Any]], bytes]) -> str:
    """Take the calls and the samples out of a dumped episode, and return them compressed: JSON, then its arrays."""
    packer, planes = zlib.compressobj(wbits=-15), []
    for fields, kind in ((_INTEGERS, "<i4"), (_FLOATS, "<f4")):
        places = _find_places(episode, fields)
        values = np.concatenate([np.empty(0, kind), *(holder[name] for holder, name in places)], dtype=kind, casting="unsafe")
        for holder, name in places:
            holder[name] = len(holder[name])
        # All lowest bytes first, then those above: each place has statistics of its own.
        planes += [plane.tobytes() for plane in values.view(np.uint8).reshape(-1, 4).T]
    head = encode({name: episode.pop(name) for name in ("calls", "samples")})
    parts = [
        packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH if len(part) >= _LONG else zlib.Z_NO_FLUSH)
        for part in (head, *planes)
    ]
    return b64encode(b"".join((*parts, packer.flush()))).decode()


def unpack_calls(packed: str) -> tuple[bytes, bytes]:
    """Return the JSON and the arrays that `pack_calls` packed; raises ValueError for anything else."""
    try:
        head, _, arrays = zlib.decompress(b64decode(packed, validate=True), wbits=-15).partition(b"\n")
    except zlib.error as error:
        raise ValueError(f"its calls cannot be read: {error}") from error
    return head, arrays


def fill_arrays(episode: dict[str, Any], arrays: bytes) -> None:
    """Replace the lengths of arrays by them; raises ValueError if they are not those of what was packed."""
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
