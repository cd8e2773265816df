"""What open settings become on a machine, and what the machine makes slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner_devkit.run_infos import run_info
from astuner_verl.machine_settings import settle_on
from astuner_verl.native_configuration import Machine

PACKED = "verl.actor_rollout_ref.model.use_remove_padding"
GPU = Machine(device="cuda", gpus_per_node=8, flash_attention=True, vllm=True)


@pytest.mark.parametrize(
    ("machine", "sequences", "packed", "costs"),
    [
        (Machine(device="cpu"), 10, False, False),
        (GPU, 16, True, False),
        (evolve(GPU, flash_attention=False), 16, False, True),
    ],
)
def test_what_depends_on_the_machine_is_listed(
    native: Any, tmp_path: Path, machine: Machine, sequences: int, packed: bool, costs: bool
) -> None:
    run = evolve(run_info(tmp_path, backbone="verl"), native=native().tree)
    found = {one.key: one for one in settle_on(run, machine)}
    assert found["rollout.max_num_seqs"].value == sequences
    assert found["verl.actor_rollout_ref.rollout.name"].value == ("transformers" if machine.device == "cpu" else "vllm")
    assert (found[PACKED].value, found[PACKED].cost is not None) == (packed, costs)
    assert all(one.because for one in found.values())
