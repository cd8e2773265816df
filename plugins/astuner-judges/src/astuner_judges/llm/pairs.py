"""Which works are compared with which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import combinations

Pair = tuple[str, str]


def shuffle_works(works: Iterable[str], key: str) -> list[str]:
    """Return the different works in an order that depends on them and the key alone, and on nothing that is in them."""
    return sorted(set(works), key=lambda work: blake2b(f"{key}\n{work}".encode(), digest_size=16).digest())


def choose_pairs(works: Iterable[str], key: str, per_work: int | None) -> list[Pair]:
    """Return pairs such that each different work stands in `per_work` of them, or in all there are; None takes all.

    Works stand on a circle, and each is compared with the next ones, so that from 2 on all hang together. Where the numbers do
    not come out even, one work is in one more.
    """
    circle = shuffle_works(works, key)
    count = len(circle)
    if per_work is None or per_work >= count - 1:
        return list(combinations(circle, 2))
    pairs = [(circle[place], circle[(place + step) % count]) for step in range(1, per_work // 2 + 1) for place in range(count)]
    if per_work % 2:
        pairs += _half(circle)
    return pairs


def _half(circle: Sequence[str]) -> list[Pair]:
    """Return pairs of works that stand opposite, each in one."""
    count, opposite = len(circle), len(circle) // 2
    if count % 2 == 0:
        return list(zip(circle[:opposite], circle[opposite:], strict=True))
    # Going on by the opposite step comes by all of an odd number; every other of its strides, and one more for the last.
    walk = [circle[stride * opposite % count] for stride in range(count)]
    return [*zip(walk[::2], walk[1::2], strict=False), (walk[-1], walk[0])]
