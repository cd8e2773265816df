"""What a run's configuration becomes on a machine; stages are made whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.config.trees import get
from astuner.errors import ConfigError
from astuner_trinity.defaults import faults_of, trinity_defaults, without_defaults
from astuner_trinity.environment import Machine
from astuner_trinity.layout import Layout
from astuner_trinity.native import Wanted, finished

CPU = Machine(gpus=0, stand_in="a stand-in")


@pytest.fixture
def made(tree: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return a function from a machine and settings to the finished configuration."""

    def of(machine: Machine, *overrides: str, text: str = "") -> dict[str, Any]:
        wanted = Wanted(layout=Layout(Path("/run")), model="/model", total_steps=9, loss_agg_mode="token-mean")
        found = finished(tree(*overrides, text=text), machine, wanted)
        assert faults_of(found) == ()
        return found

    return of


@pytest.mark.parametrize(
    ("gpus", "text", "mode", "engines", "method"),
    [
        (1, "", "colocate", 1, "memory"),
        (2, "", "both", 1, "nccl"),
        (8, "", "both", 2, "nccl"),
        (0, "", "both", 2, "nccl"),
        (1, "trinity: {mode: explore}", "explore", 1, "checkpoint"),
        (4, "trinity: {mode: bench}", "bench", 2, "checkpoint"),
        (8, "trinity: {synchronizer: {sync_method: memory}}", "both", 2, "memory"),
    ],
)
def test_gpus_decide_mode_engines_and_how_weights_travel(
    made: Callable[..., dict[str, Any]], gpus: int, text: str, mode: str, engines: int, method: str
) -> None:
    found = made(Machine(gpus=gpus), text=text)
    assert found["mode"] == mode
    assert get(found, "explorer.rollout_model.engine_num") == engines
    assert get(found, "synchronizer.sync_method") == method


@pytest.mark.parametrize(
    ("gpus", "groups", "text", "runners"),
    [(8, 32, "", 16), (2, 32, "", 32), (8, 1, "", 1), (8, 32, "trinity: {explorer: {runner_per_model: 5}}", 5)],
)
def test_groups_are_shared_out_among_the_runners_of_each_engine(
    tree: Callable[..., dict[str, Any]], gpus: int, groups: int, text: str, runners: int
) -> None:
    wanted = Wanted(layout=Layout(Path("/run")), model="/model", total_steps=9, loss_agg_mode="token-mean", groups_at_once=groups)
    assert finished(tree(text=text), Machine(gpus=gpus), wanted)["explorer"]["runner_per_model"] == runners


def test_too_few_gpus_are_refused(made: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(ConfigError, match="there are 4 GPUs"):
        made(Machine(gpus=4), "rollout.n_vllm_engine=2", "rollout.tensor_model_parallel_size=2")


def test_adapters_travel_by_checkpoint(made: Callable[..., dict[str, Any]]) -> None:
    assert get(made(Machine(gpus=4), "model.lora_rank=8"), "synchronizer.sync_method") == "checkpoint"


def test_both_places_compute_in_one_precision(made: Callable[..., dict[str, Any]]) -> None:
    gpu, cpu = made(Machine(gpus=2)), made(CPU)
    assert get(gpu, "explorer.rollout_model.dtype") == "bfloat16"
    assert get(gpu, "trainer.trainer_config.actor.fsdp_config") is None
    assert get(cpu, "explorer.rollout_model.dtype") == "float32"
    assert get(cpu, "trainer.trainer_config.actor.fsdp_config.mixed_precision.param_dtype") == "fp32"
    asked = made(Machine(gpus=2), "model.dtype=float32")
    assert get(asked, "trainer.trainer_config.ref.fsdp_config.mixed_precision.param_dtype") == "fp32"


def test_what_the_user_wrote_for_verl_wins(made: Callable[..., dict[str, Any]]) -> None:
    found = made(CPU, text="trinity: {trainer: {trainer_config: {model: {override_config: {attn_implementation: eager}}}}}")
    assert get(found, "trainer.trainer_config.model.override_config.attn_implementation") == "eager"
    assert get(found, "trainer.trainer_config.model.external_lib") == "astuner_trinity.trainer.worker"


def test_a_monitor_of_trinitys_own_writes_too(made: Callable[..., dict[str, Any]]) -> None:
    found = made(CPU, text="trinity: {monitor: {monitor_type: tensorboard}}")["monitor"]
    assert found["monitor_type"] == "astuner_trinity.monitor.FanOut"
    assert found["monitor_args"] == {"records": "/run/trinity/records", "also": {"tensorboard": {}}}


def test_an_algorithm_of_trinitys_own_keeps_its_functions(made: Callable[..., dict[str, Any]]) -> None:
    found = made(CPU, text="trinity: {algorithm: {algorithm_type: gspo}}")["algorithm"]
    assert [found[name] for name in ("advantage_fn", "policy_loss_fn", "policy_loss_fn_args", "kl_loss_fn")] == [None] * 4
    # Whole steps are read all the same.
    assert found["sample_strategy"] == "astuner_trinity.trainer.batches.StepBatches"
    assert found["sample_strategy_args"]["every_row"] is True


def test_a_stage_says_only_what_differs(made: Callable[..., dict[str, Any]]) -> None:
    text = (
        "trinity: {stages: [{stage_name: sft, mode: train, algorithm: {algorithm_type: sft}, buffer: {total_steps: 3, "
        "trainer_input: {experience_buffer: {storage_type: file, path: x}}}}, {stage_name: rl}, "
        "{stage_name: bench, mode: bench}]}"
    )
    sft, rl, bench = made(CPU, "trainer_common.optim.lr=1.0e-5", text=text)["stages"]
    # Trinity would take its own defaults for all that a section of a stage leaves out.
    assert sft["algorithm"]["optimizer"]["lr"] == 1e-5
    assert "policy_loss_fn" not in sft["algorithm"]
    # So that a stop is seen while its rows are read.
    assert sft["algorithm"]["sample_strategy"] == "astuner_trinity.trainer.batches.StepBatches"
    assert sft["buffer"]["batch_size"] == 32
    assert sft["trainer"]["total_steps"] == 3
    assert rl == {"stage_name": "rl"}
    assert bench["explorer"]["eval_on_startup"] is True
    assert bench["explorer"]["rollout_model"]["enable_openai_api"] is True


def test_what_lies_in_the_run_directory_can_be_read(made: Callable[..., dict[str, Any]]) -> None:
    whole = made(CPU)
    short = without_defaults(whole, trinity_defaults())
    assert "log" not in short
    assert faults_of(short) == ()
