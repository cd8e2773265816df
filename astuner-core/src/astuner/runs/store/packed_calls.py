"""What the calls and the samples of an episode hold as one text at the end of its line: messages and arrays, bit for bit."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from astuner.contract.schema import Call, Sample
from astuner.contract.token_streams import find_stretches, index_calls, join_ids

_INTEGERS = (("calls", "prompt_ids"), ("calls", "output_ids"), ("samples", "ids"), ("samples", "mask"))
_FLOATS = (("calls", "logprobs"), ("samples", "logprobs"))
_LONG = 256
"""Bytes from which on statistics of their own gain more than they take."""

Places = list[tuple[dict[str, Any], str]]


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


def _find_places(episode: dict[str, Any], fields: Sequence[tuple[str, str]]) -> Places:
    return [(one, name) for group, name in fields for one in episode[group] if "length" not in one]


def join_trained(calls: Sequence[Call], trained: Sequence[int], length: int) -> tuple[Any, Any, Any]:
    """Return the ids, the mask and the log-probabilities of a row in which all that these calls have sampled is trained.

    Raises one of `UNREADABLE` if the stream of the last one is shorter, or has no beginning.
    """
    if any(call.parent is not None and call.parent >= call.index for call in calls):
        raise ValueError("a call continues a later one")
    path = find_stretches(index_calls(calls), trained[-1])
    ids = join_ids(path)[:length]
    if len(ids) < length:
        raise ValueError("a sample is longer than its calls")
    mask, logprobs = np.zeros(length, np.bool_), np.zeros(length, np.float32)
    for part in path:
        if part.call.index in trained:
            first = part.start + part.fed
            mask[first : first + part.sampled] = True
            logprobs[first : first + part.sampled] = part.call.logprobs[: min(part.sampled, max(0, length - first))]
    return ids, mask, logprobs


def repeats_calls(sample: Sample, calls: Sequence[Call]) -> bool:
    """Whether `join_trained` makes the arrays of a sample out of its calls, bit for bit."""
    try:
        ids, mask, logprobs = join_trained(calls, sample.calls, len(sample.ids))
    except (ValueError, LookupError, TypeError):
        return False
    own = np.where(sample.mask, sample.logprobs, np.float32(0))
    return np.array_equal(ids, sample.ids) and np.array_equal(mask, sample.mask) and logprobs.tobytes() == own.tobytes()
