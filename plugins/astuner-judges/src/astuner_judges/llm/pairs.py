"""Which works are compared with which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import combinations

Pair = tuple[str, str]


def shuffle_works(works: Iterable[str], key: str) -> list[str]:
    """Return the different works in a pseudo-random order that depends only on them and the key."""
    return sorted(set(works), key=lambda work: blake2b(f"{key}\n{work}".encode(), digest_size=16).digest())


def choose_pairs(works: Iterable[str], key: str, per_work: int | None) -> list[Pair]:
    """Return pairs such that each different work is in `per_work` of them, or in all; None takes all pairs.

    Works form a circle, and each is compared with the next ones, so that from 2 on all are connected. If the numbers do not come
    out even, one work is in one more pair.
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
    """Return pairs of opposite works, each in one."""
    count, opposite = len(circle), len(circle) // 2
    if count % 2 == 0:
        return list(zip(circle[:opposite], circle[opposite:], strict=True))
    # With an odd number, stepping to the opposite visits every work: take every other stride, and one more for the last.
    walk = [circle[stride * opposite % count] for stride in range(count)]
    return [*zip(walk[::2], walk[1::2], strict=False), (walk[-1], walk[0])]
