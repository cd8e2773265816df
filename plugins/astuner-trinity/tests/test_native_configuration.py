"""What a run's configuration becomes on a machine; stages are made whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.config.trees import get
from astuner_trinity.defaults import drop_defaults, find_loader_faults, trinity_defaults
from astuner_trinity.layout import Layout
from astuner_trinity.native_configuration import STAMP, Wanted, finish_configuration
from astuner_trinity.process_environment import Machine
from astuner_trinity.stages import STEPS_BEFORE, name_steps_before, stage_offsets

CPU = Machine(gpus=0, stand_in="a stand-in")


@pytest.fixture
def made(tree: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return a function from a machine and settings to the finished configuration."""

    def of(machine: Machine, *overrides: str, text: str = "") -> dict[str, Any]:
        wanted = Wanted(layout=Layout(Path("/run")), model="/model", total_steps=9, loss_agg_mode="token-mean")
        found = finish_configuration(tree(*overrides, text=text), machine, wanted)
        assert find_loader_faults(found) == ()
        return found

    return of


@pytest.mark.parametrize(
    ("gpus", "text", "mode", "engines", "method"),
    [
        (1, "", "colocate", 1, "memory"),
        (2, "", "both", 1, "nccl"),
        (3, "", "both", 1, "nccl"),
        (5, "", "both", 2, "nccl"),
        (8, "", "both", 4, "nccl"),
        (16, "", "both", 8, "nccl"),
        (0, "", "both", 2, "nccl"),
        (1, "trinity: {mode: explore}", "explore", 1, "checkpoint"),
        (4, "trinity: {mode: bench}", "bench", 4, "checkpoint"),
        (8, "trinity: {synchronizer: {sync_method: memory}}", "both", 4, "memory"),
    ],
)
def test_gpus_decide_mode_engines_and_how_weights_travel(
    made: Callable[..., dict[str, Any]], gpus: int, text: str, mode: str, engines: int, method: str
) -> None:
    found = made(Machine(gpus=gpus), text=text)
    assert found["mode"] == mode
    assert get(found, "explorer.rollout_model.engine_num") == engines
    assert get(found, "synchronizer.sync_method") == method


@pytest.mark.parametrize(("gpus", "spread", "engines"), [(8, 2, 2), (8, 4, 1), (6, 2, 1), (4, 3, 1), (16, 8, 1)])
def test_half_of_the_gpus_play_whatever_an_engine_takes(
    made: Callable[..., dict[str, Any]], gpus: int, spread: int, engines: int
) -> None:
    found = made(Machine(gpus=gpus), f"rollout.tensor_model_parallel_size={spread}")
    assert get(found, "explorer.rollout_model.engine_num") == engines


@pytest.mark.parametrize(
    ("gpus", "groups", "text", "runners"),
    [(8, 32, "", 8), (2, 32, "", 32), (8, 1, "", 1), (8, 32, "trinity: {explorer: {runner_per_model: 5}}", 5)],
)
def test_groups_are_shared_out_among_the_runners_of_each_engine(
    tree: Callable[..., dict[str, Any]], gpus: int, groups: int, text: str, runners: int
) -> None:
    wanted = Wanted(layout=Layout(Path("/run")), model="/model", total_steps=9, loss_agg_mode="token-mean", groups_at_once=groups)
    assert finish_configuration(tree(text=text), Machine(gpus=gpus), wanted)["explorer"]["runner_per_model"] == runners


@pytest.mark.parametrize("mode", ["bench", "explore", "train", "serve"])
def test_on_one_gpu_trinity_keeps_the_mode(
    made: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Where it counts the GPUs itself, it takes colocate in the place of any."""
    pytest.importorskip("trinity")
    from omegaconf import OmegaConf
    from trinity.common import config_validator
    from trinity.common.config import Config

    one = {"alive": True, "Resources": {"GPU": 1.0}}
    monkeypatch.setattr(config_validator, "ray", SimpleNamespace(is_initialized=lambda: True, nodes=lambda: [one]))
    buffer = "buffer: {trainer_input: {experience_buffer: {storage_type: sql, path: 'sqlite:///rows.db'}}}"
    found = made(Machine(gpus=1), text=f"trinity: {{mode: {mode}, {buffer}}}")
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), found))
    config_validator.RayClusterConfigValidator().validate(config)
    assert (config.mode, config.cluster.total_gpu_num) == (mode, 1)


def test_the_stages_of_one_gpu_take_turns_on_it(made: Callable[..., dict[str, Any]]) -> None:
    text = "trinity: {mode: bench, stages: [{stage_name: rl, mode: both}, {stage_name: bench}]}"
    assert [stage.get("mode") for stage in made(Machine(gpus=1), text=text)["stages"]] == ["colocate", None]
    two = made(Machine(gpus=2), text=text)
    assert [stage.get("mode") for stage in two["stages"]] == ["both", None]
    # One is left for the trainer of the stage that has one.
    assert get(two, "explorer.rollout_model.engine_num") == 1


def test_all_nodes_of_a_cluster_are_shared_out(made: Callable[..., dict[str, Any]]) -> None:
    found = made(Machine(nodes=2, gpus=4), "rollout.n_vllm_engine=5")
    assert found["cluster"]["node_num"] * found["cluster"]["gpu_per_node"] == 8
    assert found["algorithm"]["sample_strategy_args"]["gpus"] == 8


def test_too_few_gpus_are_refused(made: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(ConfigError, match="there are 4 GPUs"):
        made(Machine(gpus=4), "rollout.n_vllm_engine=2", "rollout.tensor_model_parallel_size=2")


PLACES = [
    ("trainer_common.optim.lr=3.0e-5", "{algorithm: {optimizer: {lr: 3.0e-5}}}", 3e-5, ["algorithm.sample_strategy_args.lr"]),
    ("trainer_common.grad_clip=0.3", "{trainer: {grad_clip: 0.3}}", 0.3, ["algorithm.optimizer.clip_grad"]),
    (
        "trainer_common.ulysses_sequence_parallel_size=2",
        "{trainer: {ulysses_sequence_parallel_size: 2}}",
        2,
        [
            "algorithm.policy_loss_fn_args.sequence_parallel",
            "algorithm.sample_strategy_args.sequence_parallel",
            "algorithm.entropy_loss_fn_args.sequence_parallel",
        ],
    ),
]


@pytest.mark.parametrize(("ours", "raw", "value", "places"), PLACES)
def test_a_value_that_is_read_in_several_places_is_the_same_in_all(
    made: Callable[..., dict[str, Any]], ours: str, raw: str, value: Any, places: list[str]
) -> None:
    (stage,) = made(CPU, text=f"trinity: {{stages: [{{stage_name: s, {raw[1:-1]}}}]}}")["stages"]
    for found in (made(CPU, ours), made(CPU, text=f"trinity: {raw}"), stage):
        assert [get(found, place) for place in places] == [value] * len(places)


def test_every_trainer_finds_the_loss_in_the_plan(made: Callable[..., dict[str, Any]]) -> None:
    key = "algorithm.policy_loss_fn_args.plan"
    staged = made(CPU, text="trinity: {stages: [{stage_name: s, mode: both, algorithm: {optimizer: {lr: 1.0e-5}}}]}")
    assert [get(one, key) for one in (staged, staged["stages"][0])] == ["/run/trinity/plan.json"] * 2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (("use_kl_loss=false",), False),
        (("kl_loss_coef=0.1",), True),
        (("use_kl_loss=false", "algorithm.entropy_ctrl.coeff=0.1"), True),
    ],
)
def test_rows_without_an_advantage_are_trained_for_a_divergence_or_the_entropy(
    made: Callable[..., dict[str, Any]], settings: tuple[str, ...], expected: bool
) -> None:
    found = made(CPU, *(f"trainer_common.{one}" for one in settings))["algorithm"]["sample_strategy_args"]
    assert (found["every_row"], found["needs_advantage"]) == (expected, True)


def test_an_algorithm_of_trinitys_own_weighs_the_entropy_too(made: Callable[..., dict[str, Any]]) -> None:
    own = "trinity: {algorithm: {algorithm_type: gspo}}"
    weighed = made(CPU, "trainer_common.algorithm.entropy_ctrl.coeff=0.1", text=own)["algorithm"]
    assert weighed["entropy_loss_fn_args"] == {"entropy_coef": 0.1}
    assert made(CPU, text=own)["algorithm"]["entropy_loss_fn_args"] is None


@pytest.mark.parametrize("style", ["fixed", "fully_async"])
def test_a_bench_measures_in_every_style(made: Callable[..., dict[str, Any]], style: str) -> None:
    how = f"synchronizer: {{sync_style: {style}}}"
    over = "explorer: {over_rollout: {ratio: 0.5}}, " if style == "fully_async" else ""
    alone = made(CPU, text=f"trinity: {{mode: bench, {over}{how}}}")
    assert [one["name"] for one in get(alone, "buffer.explorer_input.eval_tasksets")] == ["validation"]
    # Trinity refuses evaluation in any other.
    assert alone["synchronizer"]["sync_style"] == "fixed"
    assert (get(alone, "explorer.eval_on_startup"), get(alone, "explorer.over_rollout.ratio")) == (True, 0.0)

    staged = made(CPU, text=f"trinity: {{stages: [{{stage_name: rl}}, {{stage_name: bench, mode: bench}}], {over}{how}}}")
    bench = {**staged, **staged["stages"][1]}
    assert [one["name"] for one in get(bench, "buffer.explorer_input.eval_tasksets")] == ["validation"]
    assert get(bench, "buffer.explorer_input.eval_tasksets")[0]["path"] == "/run/trinity/plan.json"
    assert (get(bench, "explorer.eval_on_startup"), get(bench, "explorer.over_rollout.ratio")) == (True, 0.0)
    assert staged["synchronizer"]["sync_style"] == style


def test_adapters_travel_by_checkpoint(made: Callable[..., dict[str, Any]]) -> None:
    assert get(made(Machine(gpus=4), "model.lora_rank=8"), "synchronizer.sync_method") == "checkpoint"


def test_both_places_compute_in_one_precision(made: Callable[..., dict[str, Any]]) -> None:
    gpu, cpu = made(Machine(gpus=2)), made(CPU)
    assert get(gpu, "explorer.rollout_model.dtype") == "bfloat16"
    assert "mixed_precision" not in get(gpu, "trainer.trainer_config.actor.fsdp_config")
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


@pytest.mark.parametrize(("text", "expected"), [("", True), ("trinity: {algorithm: {algorithm_type: gspo}}", None)])
def test_our_loss_and_its_batches_know_that_the_estimator_adds_to_the_loss(
    tree: Callable[..., dict[str, Any]], text: str, expected: bool | None
) -> None:
    wanted = Wanted(layout=Layout(Path("/run")), model="/model", total_steps=9, loss_agg_mode="token-mean", streams=True)
    found = finish_configuration(tree(text=text), CPU, wanted)["algorithm"]
    assert (found["policy_loss_fn_args"] or {}).get("streams") is expected
    assert found["sample_strategy_args"]["streams"] is True


def test_an_algorithm_of_trinitys_own_keeps_its_functions(made: Callable[..., dict[str, Any]]) -> None:
    whole = made(CPU, text="trinity: {algorithm: {algorithm_type: gspo}}")
    found = whole["algorithm"]
    assert [found[name] for name in ("policy_loss_fn", "policy_loss_fn_args", "kl_loss_fn", "entropy_loss_fn")] == [None] * 4
    # Whole steps are read all the same.
    assert found["sample_strategy"] == "astuner_trinity.trainer.batches.StepBatches"
    assert found["sample_strategy_args"]["every_row"] is True
    # And are marked as such, after its own advantages, or at the pipeline's end where the trainer computes them.
    assert found["advantage_fn"] == STAMP
    assert found["advantage_fn_args"] == {"algorithm": "gspo", "advantage_fn": None, "advantage_fn_args": None}
    assert whole["data_processor"]["experience_pipeline"]["operators"] == [{"name": STAMP}]


def test_the_arguments_of_a_loss_of_trinitys_own_are_the_users(made: Callable[..., dict[str, Any]]) -> None:
    text = "trinity: {algorithm: {algorithm_type: gspo, policy_loss_fn_args: {clip_range: 0.1}}}"
    assert made(CPU, text=text)["algorithm"]["policy_loss_fn_args"] == {"clip_range": 0.1}


def test_what_the_user_chose_for_advantages_stays_and_is_marked_too(made: Callable[..., dict[str, Any]]) -> None:
    text = (
        "trinity: {algorithm: {algorithm_type: gspo, advantage_fn: opmd, advantage_fn_args: {tau: 2.0}}, "
        "data_processor: {experience_pipeline: {operators: [{name: reward_filter}]}}}"
    )
    found = made(CPU, text=text)
    assert found["algorithm"]["advantage_fn_args"] == {
        "algorithm": "gspo",
        "advantage_fn": "opmd",
        "advantage_fn_args": {"tau": 2.0},
    }
    names = [one["name"] for one in found["data_processor"]["experience_pipeline"]["operators"]]
    assert names == ["reward_filter", STAMP]


def test_the_tasks_of_each_stage_carry_the_steps_of_the_stages_before_it(made: Callable[..., dict[str, Any]]) -> None:
    warm = "{stage_name: warm, mode: both, buffer: {total_steps: 4}}"
    found = made(
        CPU, text=f"trinity: {{stages: [{warm}, {{stage_name: learn, mode: both}}, {{stage_name: bench, mode: bench}}]}}"
    )
    name_steps_before(found, stage_offsets(found))
    assert find_loader_faults(found) == ()
    inputs = [stage["buffer"]["explorer_input"] for stage in found["stages"]]
    assert [given["taskset"]["workflow_args"][STEPS_BEFORE] for given in inputs] == [0, 4, 13]
    assert [one["workflow_args"][STEPS_BEFORE] for given in inputs for one in given["eval_tasksets"]] == [0, 4, 13]


def test_the_steps_of_a_stages_own_algorithm_are_marked_too(made: Callable[..., dict[str, Any]]) -> None:
    operators = "data_processor: {experience_pipeline: {operators: [{name: reward_filter}]}}"
    text = f"trinity: {{stages: [{{stage_name: rl, algorithm: {{algorithm_type: grpo}}, {operators}}}]}}"
    (stage,) = made(CPU, text=text)["stages"]
    assert stage["algorithm"]["advantage_fn"] == STAMP
    assert stage["algorithm"]["advantage_fn_args"]["algorithm"] == "grpo"
    assert [one["name"] for one in stage["data_processor"]["experience_pipeline"]["operators"]] == ["reward_filter", STAMP]


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
    short = drop_defaults(whole, trinity_defaults())
    assert "log" not in short
    assert find_loader_faults(short) == ()


@pytest.mark.parametrize(
    ("overrides", "text", "expected"),
    [
        ((), "", "/run/trinity/token_parts"),
        (("trainer_common.token_record.enable=false",), "", None),
        ((), "trinity: {algorithm: {algorithm_type: gspo}}", None),
    ],
)
def test_our_loss_records_its_tokens_unless_that_is_off(
    made: Callable[..., dict[str, Any]], overrides: tuple[str, ...], text: str, expected: str | None
) -> None:
    arguments = made(Machine(gpus=4), *overrides, text=text)["algorithm"]["policy_loss_fn_args"] or {}
    assert arguments.get("token_parts") == expected


@pytest.mark.parametrize("machine", [CPU, Machine(gpus=4)])
def test_the_servers_of_a_run_want_its_key(made: Callable[..., dict[str, Any]], machine: Machine) -> None:
    text = "trinity: {explorer: {auxiliary_models: [{model_path: /judge}]}}"
    first, second = (made(machine, text=text)["explorer"] for _ in range(2))
    key = first["rollout_model"]["api_key"]
    assert len(key) == 64
    assert [one["api_key"] for one in first["auxiliary_models"]] == [key]
    assert second["rollout_model"]["api_key"] != key


def test_the_user_may_choose_the_key(made: Callable[..., dict[str, Any]]) -> None:
    text = "trinity: {explorer: {rollout_model: {api_key: mine}}}"
    assert made(CPU, text=text)["explorer"]["rollout_model"]["api_key"] == "mine"
