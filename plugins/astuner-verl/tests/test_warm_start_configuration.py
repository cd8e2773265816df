"""verl's configuration for a warm start, and what is refused before Ray starts."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError, UsageError
from astuner.contract.protocols import RunInfo, WarmStartJob
from astuner.settings.config.loading import load_config
from astuner.settings.config.trees import get
from astuner_devkit.run_infos import run_info
from astuner_verl.backbone import VerlBackbone
from astuner_verl.native_configuration import Machine
from astuner_verl.warm_start.native_configuration import resolve_warm_start

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
CPU = Machine(device="cpu")


@pytest.fixture
def job(tmp_path: Path) -> WarmStartJob:
    out = tmp_path / "out"
    rows: Any = [object()] * 18
    return WarmStartJob(model="org/start", out=out, train=rows, held_out=(), epochs=2, batch_size=8, lr=1e-4, seed=5)


@pytest.fixture
def planned(native: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9.1")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    def make(*overrides: str, text: str = "") -> RunInfo:
        found = native(*overrides, text=text)
        assert found.problems == ()
        return run_info(tmp_path, config=load_config(tmp_path / "run.yaml", overrides).config, native=found.tree)

    return make


def test_what_belongs_to_sampling_and_reinforcement_learning_is_off(planned: Any, job: WarmStartJob) -> None:
    run = planned(
        "rollout.name=vllm",
        "rollout.tensor_model_parallel_size=2",
        "rollout.temperature=0.7",
        "trainer_common.kl_loss_coef=0.1",
        "trainer_common.algorithm.use_kl_in_reward=true",
        "trainer_common.n_gpus_per_node=2",
        "trainer_common.algorithm.entropy_ctrl.coeff=0.1",
        text="verl: {trainer: {v1: {trainer_mode: separate_async}}}\n",
    )
    found = resolve_warm_start(run, job, CPU)
    wanted = {
        f"{ROLLOUT}.name": "transformers",
        f"{ROLLOUT}.tensor_model_parallel_size": 1,
        f"{ROLLOUT}.temperature": 1.0,
        f"{ACTOR}.use_kl_loss": False,
        f"{ACTOR}.entropy_coeff": 0,
        "algorithm.use_kl_in_reward": False,
        "trainer.v1.trainer_mode": "sync",
    }
    assert {key: get(found, key) for key in wanted} == wanted


def test_what_belongs_to_the_optimizer_and_the_model_is_that_of_the_run(planned: Any, job: WarmStartJob) -> None:
    run = planned(
        "model.lora_rank=4",
        "trainer_common.optim.weight_decay=0.02",
        "trainer_common.grad_clip=0.3",
        "trainer_common.n_gpus_per_node=2",
        text="verl: {actor_rollout_ref: {actor: {fsdp_config: {param_offload: true}}}}\n",
    )
    found = resolve_warm_start(run, job, CPU)
    wanted = {
        "actor_rollout_ref.model.path": "org/start",
        "actor_rollout_ref.model.lora_rank": 4,
        f"{ACTOR}.optim.weight_decay": 0.02,
        f"{ACTOR}.optim.clip_grad": 0.3,
        f"{ACTOR}.fsdp_config.param_offload": True,
        f"{ACTOR}.fsdp_config.seed": 5,
        "trainer.n_gpus_per_node": 2,
        "trainer.total_training_steps": 6,
    }
    assert {key: get(found, key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("verl: {actor_rollout_ref: {model: {use_fused_kernels: true}}}", "model.use_fused_kernels: fused kernels return no"),
        ("verl: {actor_rollout_ref: {actor: {pad_to_length: true}}}", "actor.pad_to_length: verl returns no first choices"),
        (
            "verl: {actor_rollout_ref: {actor: {ulysses_sequence_parallel_size: 1, fsdp_config: {pad_to_length: true}}}}",
            "fsdp_config.pad_to_length: verl returns no",
        ),
    ],
)
def test_passes_whose_first_choices_cannot_be_counted_are_refused(planned: Any, job: WarmStartJob, text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        VerlBackbone().check_warm_start(planned(text=text + "\n"), job)


def test_adapters_to_begin_with_are_refused(planned: Any, job: WarmStartJob, tmp_path: Path) -> None:
    adapters = tmp_path / "adapters"
    adapters.mkdir()
    (adapters / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base", "r": 4}))
    with pytest.raises(ConfigError, match=r"holds LoRA adapters of org/base.*astuner export .*adapters --merge-lora"):
        VerlBackbone().check_warm_start(planned(), evolve(job, model=adapters))


def test_a_machine_that_cannot_do_it_is_refused(planned: Any, job: WarmStartJob) -> None:
    with pytest.raises(ConfigError, match="a sequence can be spread only without padding"):
        VerlBackbone().check_warm_start(
            planned("trainer_common.ulysses_sequence_parallel_size=2", "trainer_common.n_gpus_per_node=2"), job
        )


def test_a_cluster_behind_a_proxy_is_refused(planned: Any, job: WarmStartJob, monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned()
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(UsageError, match="ray job submit"):
        VerlBackbone().check_warm_start(run, job)
