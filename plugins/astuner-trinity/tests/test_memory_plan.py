"""What a run of Trinity holds on each GPU: engines and trainer apart, or together on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import UsageError
from astuner.settings.memory_estimate.model_shape import ModelShape
from astuner.settings.memory_estimate.parts import Hardware, MemoryPlan, MemoryQuestion
from astuner_devkit.run_infos import run_info
from astuner_trinity.memory_plan import plan_memory
from astuner_trinity.native_keys import PLAIN, WITH_REFERENCE

SHAPE = ModelShape(
    family="qwen2",
    layers=2,
    width=64,
    inner=128,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocabulary=1000,
    tied=True,
    qkv_bias=True,
    qk_norm=False,
    stored_dtype="bfloat16",
)


def make_tree(**engine: Any) -> dict[str, Any]:
    """Return the keys of a native configuration that decide the memory."""
    model = {
        "dtype": "auto",
        "engine_num": "auto",
        "tensor_parallel_size": 1,
        "data_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "gpu_memory_utilization": 0.5,
    }
    return {
        "mode": "both",
        "stages": [],
        "cluster": {"node_num": None, "gpu_per_node": None},
        "algorithm": {"algorithm_type": PLAIN},
        "explorer": {"rollout_model": model | engine, "auxiliary_models": []},
        "trainer": {
            "max_token_len_per_gpu": 16384,
            "use_remove_padding": "auto",
            "param_offload": False,
            "optimizer_offload": False,
            "ulysses_sequence_parallel_size": 1,
            "trainer_config": None,
        },
    }


def plan(tmp_path: Path, tree: dict[str, Any], gpus: int = 8, *, here: bool = False, rank: int = 0) -> MemoryPlan:
    hardware = Hardware(gpus=gpus, gpu_bytes=10**10, here=here)
    run = evolve(run_info(tmp_path, backbone="trinity"), native=tree)
    return plan_memory(run, MemoryQuestion(shape=SHAPE, hardware=hardware, lora_rank=rank, target_modules="all-linear"))


def place(found: MemoryPlan) -> dict[str, tuple[int, ...]]:
    return {part.name: tuple(part.gpus) for part in found.parts}


def test_half_of_the_gpus_hold_engines_and_the_others_the_trainer(tmp_path: Path) -> None:
    found = place(plan(tmp_path, make_tree()))
    assert (found["engine's weights"], found["weights"]) == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_one_gpu_holds_both_at_all_times(tmp_path: Path) -> None:
    found = plan(tmp_path, make_tree(), gpus=1)
    assert set(place(found).values()) == {(0,)}
    assert {tuple(part.phases) for part in found.parts if part.name == "KV cache"} == {("playing", "sending", "training")}


def test_an_engine_over_two_gpus_has_half_of_the_weights_on_each(tmp_path: Path) -> None:
    sizes = [
        next(
            part.bytes for part in plan(tmp_path, make_tree(tensor_parallel_size=spread)).parts if part.name == "engine's weights"
        )
        for spread in (1, 2)
    ]
    assert sizes == [2 * SHAPE.parameters, SHAPE.parameters]


def test_a_reference_is_a_second_model_without_adapters_only(tmp_path: Path) -> None:
    tree = make_tree()
    tree["algorithm"]["algorithm_type"] = WITH_REFERENCE
    assert ["reference model" in place(plan(tmp_path, tree, rank=rank)) for rank in (0, 4)] == [True, False]


def test_padded_passes_compute_one_row(tmp_path: Path) -> None:
    tree = make_tree()
    tree["trainer"]["use_remove_padding"] = False
    longest = run_info(tmp_path).config.rollout.max_model_len
    (logits,) = [part.bytes for part in plan(tmp_path, tree).parts if part.name == "logits"]
    assert logits == longest * 1000 * 8


def test_without_a_gpu_there_is_nothing_to_plan(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--gpus"):
        plan(tmp_path, make_tree(), gpus=0, here=True)
