"""What open settings become on this machine, and what they cost. Imports no verl."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from attrs import evolve

from astuner.contract.protocols import RunInfo, SettledValue, settle_sequences
from astuner.settings.config.trees import get
from astuner.shared.processes import gpu_count
from astuner_verl.alignment import ALIGNMENT, AUTO, MODEL, ROLLOUT
from astuner_verl.native_configuration import Machine, count_engines, resolve_configuration

PACKED = f"{MODEL}.use_remove_padding"
ONE_ROW = (
    "flash-attention is not installed, so each pass through the model computes one row. Where nvcc is installed: "
    "pip install flash-attn --no-build-isolation"
)


def settle_values(run_info: RunInfo) -> Sequence[SettledValue]:
    """Return the values of this machine; none if RAY_ADDRESS names another, and raises `ConfigError` for what it cannot do."""
    if os.environ.get("RAY_ADDRESS"):
        return ()
    gpus = gpu_count()
    return settle_on(run_info, Machine.here("cuda" if gpus else "cpu", gpus))


def settle_on(run_info: RunInfo, machine: Machine) -> Sequence[SettledValue]:
    """Return the values on a machine; raises `ConfigError` for what it cannot do."""
    native, rollout = run_info.native, run_info.config.rollout
    # The estimator's aggregation does not depend on the machine.
    tree = resolve_configuration(native, machine, rollout=rollout, model="", loss_agg_mode=AUTO, steps=1)
    cuda = machine.device == "cuda"
    sequences = settle_sequences(rollout, engines=count_engines(tree), gpu=cuda)
    found = [evolve(sequences, value=get(tree, f"{ROLLOUT}.max_num_seqs"))]
    reasons = {f"{ROLLOUT}.name": "vllm on GPUs if it is installed, else transformers"}
    reasons |= {constant.native: constant.reason for constant in ALIGNMENT.constants}
    for key, because in reasons.items():
        if get(native, key) == AUTO:
            cost = ONE_ROW if key == PACKED and cuda and not machine.flash_attention else None
            found.append(SettledValue(key=f"verl.{key}", value=_as_value(get(tree, key)), because=because, cost=cost))
    return tuple(found)


def _as_value(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value
