"""A set of strings that is small enough to hold the ids of a file with millions of rows."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b


class UniqueIds:
    """Remembers 48 bits of a hash per string: about 6 bytes each, beside a fixed few megabytes once there are many.

    A hit may therefore be a collision (1 in 500 runs over a million rows); whoever asks looks the string up before acting on it.
    """

    def __init__(self) -> None:
        # The top 16 bits choose a shard and are not stored. Shards are sorted, and short enough for an insertion in the middle.
        self._shards: list[array[int] | None] = [None] * 65536

    def add(self, text: str) -> bool:
        """Add a string and return whether it, or one with the same hash, was there."""
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
