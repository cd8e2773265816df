"""An episode as a JSON document."""

from __future__ import annotations

from typing import Any

from astuner.contract.schema import Episode
from astuner.runs.store.codec import dump_episode


def describe_episode(episode: Episode) -> dict[str, Any]:
    """Return everything that is stored of an episode, its verdict included, with `completed`, `reward` and `is_success`."""
    derived = {"completed": episode.completed, "reward": episode.reward, "is_success": episode.is_success}
    return {**dump_episode(episode), **derived}
