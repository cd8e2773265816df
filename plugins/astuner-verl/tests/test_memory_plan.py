"""What a run of verl holds on each GPU, from its native configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import UsageError
from astuner.settings.memory_estimate.model_shape import ModelShape
from astuner.settings.memory_estimate.parts import Hardware, MemoryPlan, MemoryQuestion
from astuner_devkit.run_infos import run_info
from astuner_verl.memory_plan import plan_memory

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
NUMBER = SHAPE.parameters
EIGHT = Hardware(gpus=8, gpu_bytes=10**10, here=False)


def plan(native: Any, tmp_path: Path, *overrides: str, hardware: Hardware = EIGHT, rank: int = 0) -> MemoryPlan:
    given = ("trainer_common.n_gpus_per_node=8", f"model.lora_rank={rank}", *overrides)
    run = evolve(run_info(tmp_path, backbone="verl"), native=native(*given).tree)
    return plan_memory(run, MemoryQuestion(shape=SHAPE, hardware=hardware, lora_rank=rank, target_modules="all-linear"))


def sizes(found: MemoryPlan) -> dict[str, int]:
    return {part.name: part.bytes for part in found.parts}


def test_states_are_sharded_over_all_gpus(native: Any, tmp_path: Path) -> None:
    found = sizes(plan(native, tmp_path))
    assert (found["weights"], found["gradients"], found["optimizer"]) == (4 * NUMBER // 8, 4 * NUMBER // 8, 8 * NUMBER // 8)


def test_with_adapters_only_these_have_gradients(native: Any, tmp_path: Path) -> None:
    found, adapters = sizes(plan(native, tmp_path, rank=4)), SHAPE.count_adapter_parameters(4)
    assert (found["weights"], found["gradients"]) == (4 * (NUMBER + adapters) // 8, 4 * adapters // 8)
    assert found["weights in flight"] == 2 * adapters


def test_what_is_offloaded_is_not_there_while_episodes_are_played(native: Any, tmp_path: Path) -> None:
    key = "trainer_common.fsdp_config.optimizer_offload"
    held = {
        value: next(part.phases for part in plan(native, tmp_path, f"{key}={value}").parts if part.name == "optimizer")
        for value in ("true", "false")
    }
    assert held == {"true": ("training",), "false": ("playing", "sending", "training")}


def test_engines_sleep_while_the_trainer_works(native: Any, tmp_path: Path) -> None:
    phases = {part.name: tuple(part.phases) for part in plan(native, tmp_path).parts}
    assert (phases["engine's weights"], phases["KV cache"]) == (("playing", "sending"), ("playing",))


def test_an_engine_without_room_for_one_context_is_a_problem_with_its_key(native: Any, tmp_path: Path) -> None:
    (problem,) = plan(native, tmp_path, hardware=evolve(EIGHT, gpu_bytes=10**6)).problems
    assert problem.key == "verl.actor_rollout_ref.rollout.gpu_memory_utilization"


def test_fewer_tokens_in_a_pass_need_less(native: Any, tmp_path: Path) -> None:
    small = ("data.max_prompt_length=100", "data.max_response_length=100", "rollout.max_model_len=200")
    key = "verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
    run = run_info(tmp_path, backbone="verl")
    rollout = evolve(run.config.rollout, max_model_len=200)
    question = MemoryQuestion(shape=SHAPE, hardware=EIGHT, lora_rank=0, target_modules="all-linear")
    logits = []
    for tokens in (400, 800):
        tree = native("trainer_common.n_gpus_per_node=8", *small, f"{key}={tokens}").tree
        given = evolve(run, native=tree, config=evolve(run.config, rollout=rollout))
        logits.append(sizes(plan_memory(given, question))["logits"])
    assert logits == [400 * 1000 * 8, 800 * 1000 * 8]


def test_a_cluster_elsewhere_is_not_guessed(native: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with pytest.raises(UsageError, match="--gpus"):
        plan(native, tmp_path, hardware=evolve(EIGHT, here=True))
