"""The rollout `transformers` in verl's registries."""

from __future__ import annotations

from typing import Any

from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

NAME = "transformers"


def register_rollout() -> None:
    """Register the rollout under its name; its parts are imported when a run uses it."""
    RolloutReplicaRegistry.register(NAME, _load_replica)
    # verl 0.9.1 has no public way to register a trainer's side of a rollout.
    base._ROLLOUT_REGISTRY[NAME, "async"] = "astuner_verl.transformers_rollout.sender.WeightSender"


def _load_replica() -> type[Any]:
    from astuner_verl.transformers_rollout.replica import TransformersReplica

    return TransformersReplica
