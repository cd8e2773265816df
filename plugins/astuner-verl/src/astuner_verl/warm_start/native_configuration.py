"""verl's configuration for a warm start: that of the run, with what belongs to sampling and reinforcement learning off."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import RunInfo, WarmStartJob
from astuner.runs.training.supervised import count_steps
from astuner.settings.config.trees import get, put
from astuner_verl.alignment import ACTOR, MODE, MODEL, ROLLOUT, SYNC
from astuner_verl.native_configuration import Machine, resolve_configuration

OFF: Mapping[str, Any] = {
    MODE: SYNC,
    "algorithm.use_kl_in_reward": False,
    f"{ACTOR}.use_kl_loss": False,
    f"{ACTOR}.entropy_coeff": 0,
    f"{ACTOR}.calculate_entropy": False,
    f"{ACTOR}.loss_agg_mode": "token-mean",
    # Nothing is sampled. The name keeps verl from looking for an engine, and it wants nodes even for none of them.
    f"{ROLLOUT}.name": "transformers",
    f"{ROLLOUT}.nnodes": 1,
    f"{ROLLOUT}.tensor_model_parallel_size": 1,
    f"{ROLLOUT}.temperature": 1.0,
}
FIXED = "verl returns no first choices from passes of a fixed length, and a warm start counts them"
HIDES_LOGITS = {
    f"{MODEL}.use_fused_kernels": "fused kernels return no logits, and a warm start counts the model's first choices in them",
    f"{ACTOR}.pad_to_length": FIXED,
    f"{ACTOR}.fsdp_config.pad_to_length": FIXED,
}
"""Native switches with which first choices cannot be counted."""


def check_native(native: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for settings of verl with which a warm start cannot measure."""
    found = [
        Problem(key=f"verl.{key}", message=f"{why}. Remove the key for the warm start; the run may have it")
        for key, why in HIDES_LOGITS.items()
        if get(native, key) is True  # others refer to another key, or are off
    ]
    if found:
        raise ConfigError(found)


def resolve_warm_start(run: RunInfo, job: WarmStartJob, machine: Machine) -> dict[str, Any]:
    """Return the complete configuration on a machine; raises `ConfigError` for what that cannot do."""
    tree: dict[str, Any] = copy.deepcopy(dict(run.native))
    for key, value in OFF.items():
        put(tree, key, value)
    put(tree, f"{ACTOR}.fsdp_config.seed", job.seed)
    native = resolve_configuration(
        tree,
        machine,
        rollout=run.config.rollout,
        model=str(job.model),
        loss_agg_mode="token-mean",
        steps=count_steps(job),
    )
    # Nobody continues from it: only the model is written.
    put(native, f"{ACTOR}.checkpoint.save_contents", ["hf_model"])
    return native
