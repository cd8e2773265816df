"""A compact set of strings for the ids of a file with millions of rows."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b


class UniqueIds:
    """Stores 48 bits of a hash per string: about 6 bytes each, plus a few megabytes.

    A hit may therefore be a collision (1 in 500 runs over a million rows); callers verify the string before acting on it.
    """

    def __init__(self) -> None:
        # The top 16 bits choose a shard and are not stored. Shards are sorted, and short enough for an insertion in the middle.
        self._shards: list[array[int] | None] = [None] * 65536

    def add(self, text: str) -> bool:
        """Add a string; return whether it, or one with the same hash, was present before."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest()
        index, rest = int.from_bytes(digest[:2], "big"), int.from_bytes(digest[2:], "big")
        shard = self._shards[index]
        if shard is None:
            self._shards[index] = array("I", (rest,))
            return False
        position = bisect_left(shard, rest)
        if position < len(shard) and shard[position] == rest:
            return True
        shard.insert(position, rest)
        return False
