"""Names and random seeds of episodes: functions of what they are, never of when they ran."""

from __future__ import annotations

import hashlib

from astuner.schema import Split


def make_episode_id(split: Split, step: int, task_id: str, repeat: int) -> str:
    """Return the id of an episode, unique in its run and the same in every attempt."""
    return f"{split}/{step}/{task_id}/{repeat}"


def derive_seed(*parts: object) -> int:
    """Return 63 bits that depend on every part, through blake2b."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
