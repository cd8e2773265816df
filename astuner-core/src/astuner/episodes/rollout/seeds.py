"""The random numbers of an episode's parts."""

from __future__ import annotations

from hashlib import blake2b


def derive_seed(*parts: object) -> int:
    """Return 63 bits that depend on every part, and never on when an episode ran."""
    return int.from_bytes(blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest(), "big") >> 1
