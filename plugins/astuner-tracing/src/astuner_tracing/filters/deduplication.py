"""The filter `deduplication`: keeps one of several equal or very similar questions."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import Attribute, field, frozen

from astuner_tracing.counts import Tally
from astuner_tracing.tasks import Candidate

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LENGTH = 3
"""Length of a piece: short enough for languages without spaces."""
_WORDS = 16
_ROUNDING = 1e-9


def _is_share(instance: Any, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value <= 1:
        raise ValueError(f"is a share of the pieces that two questions have in common, above 0 and up to 1, not {value:g}")


@frozen(kw_only=True)
class DeduplicationParams:
    """Options of the filter `deduplication`."""

    similarity_threshold: float | None = field(default=None, validator=_is_share)
    """Also drops one of two questions whose sets of three characters have at least this Jaccard similarity; null keeps both."""


class Deduplication:
    """Of equal questions keeps one with a right answer, the best liked, the first. Earlier turns are part of a question."""

    best_first = True

    def __init__(self, params: DeduplicationParams) -> None:
        self._threshold = params.similarity_threshold

    def choose_left_out(self, tasks: Iterator[tuple[int, Candidate]], tally: Tally) -> Iterator[tuple[int, int]]:
        """Yield the numbers of the tasks to leave out; keeps 16 bytes of each other one, and with a threshold its pieces."""
        seen: dict[bytes, int] = {}
        numbers: list[int] = []
        alike = SimilarTexts(self._threshold) if self._threshold is not None else None
        for number, task in tasks:
            key = bytes.fromhex(task.key)
            kept = seen.get(key)
            if kept is None and alike is not None:
                position = alike.add(task.likeness)
                kept = None if position is None else numbers[position]
                numbers += [number] if kept is None else []
            seen.setdefault(key, number if kept is None else kept)
            if kept is not None:
                yield number, kept


class SimilarTexts:
    """Texts no two of which are alike. Exact, and quick for tens of thousands: a few machine words distinguish most."""

    def __init__(self, threshold: float) -> None:
        """`threshold` is the Jaccard similarity from which two texts are alike."""
        self._threshold = threshold
        self._texts: list[array[int]] = []
        self._bits: NDArray[np.uint64] = np.zeros((1024, _WORDS), np.uint64)
        """One row per text: which of 1,024 groups its pieces belong to."""
        self._ones: NDArray[np.int64] = np.zeros(1024, np.int64)
        self._sizes: NDArray[np.int64] = np.zeros(1024, np.int64)

    def add(self, text: str) -> int | None:
        """Add a text and return None, unless a similar one was added before: then return its index."""
        pieces = split_pieces(text)
        bits = _to_bits(pieces)
        for index in self._find_candidates(bits, len(pieces)):
            if self._similarity(pieces, self._texts[index]) >= self._threshold:
                return index
        count = len(self._texts)
        if count == len(self._sizes):
            self._bits = np.concatenate([self._bits, np.zeros_like(self._bits)])
            self._ones = np.concatenate([self._ones, np.zeros_like(self._ones)])
            self._sizes = np.concatenate([self._sizes, np.zeros_like(self._sizes)])
        self._bits[count], self._ones[count], self._sizes[count] = bits, _count_ones(bits[None])[0], len(pieces)
        self._texts.append(array("Q", pieces))
        return None

    def _find_candidates(self, bits: NDArray[np.uint64], size: int) -> Iterator[int]:
        """Yield the texts that may be alike: each group that only one of them has means a piece that they do not share."""
        count = len(self._texts)
        rows, sizes = self._bits[:count], self._sizes[:count]
        shared = _count_ones(rows & bits)
        common = np.minimum(size - (_count_ones(bits[None]) - shared), sizes - (self._ones[:count] - shared))
        return iter(np.flatnonzero(common >= self._threshold * (size + sizes - common) - _ROUNDING).tolist())

    def _similarity(self, one: frozenset[int], other: array[int]) -> float:
        common = len(one.intersection(other))
        return common / (len(one) + len(other) - common)


def split_pieces(text: str) -> frozenset[int]:
    """Return the sets of three characters in a text, as numbers."""
    padded = f" {text} "
    grams = {padded[at : at + _LENGTH] for at in range(max(len(padded) - _LENGTH + 1, 1))}
    # Code points have 21 bits: three fit into 64.
    return frozenset(sum(ord(character) << (21 * place) for place, character in enumerate(gram)) for gram in grams)


def _to_bits(pieces: frozenset[int]) -> NDArray[np.uint64]:
    # Multiplying by an odd number spreads differences in the low bits to the high ones, which choose the group.
    spread = np.fromiter(pieces, np.uint64, len(pieces)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(54)
    flags = np.zeros(_WORDS * 64, np.uint8)
    flags[spread] = 1
    return np.packbits(flags).view(np.uint64)


_ONES_IN_A_BYTE = np.array([number.bit_count() for number in range(256)], np.uint8)


def _count_ones(rows: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count the set bits of each row."""
    # NumPy 1, which verl 0.8 requires, cannot count bits.
    counted = np.bitwise_count(rows) if hasattr(np, "bitwise_count") else _ONES_IN_A_BYTE[rows.view(np.uint8)]
    return counted.sum(axis=1, dtype=np.int64)  # type: ignore[no-any-return]  # of an array of either type
