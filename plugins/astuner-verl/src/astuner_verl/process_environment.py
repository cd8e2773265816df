"""The environment variables that mark the processes of a run. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from astuner.shared.known_packages import read_known_packages

Device = Literal["cpu", "cuda"]

RUN = "ASTUNER_VERL_RUN"
"""Set in every process of a run to its device; `verl_plugin` does nothing without it."""

WANTED = f"verl{read_known_packages().windows['astuner-verl']['verl']}"
"""The supported versions."""

SILENCE = "ASTUNER_VERL_SILENCE_S"
"""Seconds of silence and inactivity of the workers after which the run fails."""
SILENCE_S = 1800.0


def build_environment(device: Device) -> Mapping[str, str]:
    """Return the environment variables of every process of a run."""
    found = {
        RUN: device,
        # The user may have disabled plugins for other uses of verl.
        "VERL_USE_EXTERNAL_PLUGINS": "auto",
        "TOKENIZERS_PARALLELISM": "false",
        # Without it Ray hides the GPUs from actors that ask for none, as the servers of a colocated engine do.
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "VERL_LOGGING_LEVEL": "WARN",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if device == "cuda":
        # As in verl's own runs, except for the cache of compiled graphs, which replicas of one node would share.
        found |= {
            "HSA_NO_SCRATCH_RECLAIM": "1",
            "NCCL_DEBUG": "WARN",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true",
            "VLLM_DISABLE_COMPILE_CACHE": "1",
            "VLLM_LOGGING_LEVEL": "WARN",
        }
    if device == "cpu":
        found |= {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"}
    return found
