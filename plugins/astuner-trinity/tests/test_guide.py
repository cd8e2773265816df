"""Every key of Trinity's configuration guide reaches Trinity's configuration, or is answered with what to do instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.settings.config.native import Native
from astuner.settings.config.trees import merge
from astuner_trinity.defaults import to_plain
from astuner_trinity.layout import Layout
from astuner_trinity.native_configuration import Wanted, finish_configuration
from astuner_trinity.open_values import fill_open_values
from astuner_trinity.process_environment import Machine

GUIDE = json.loads((Path(__file__).parent / "guide_keys.json").read_text())
LISTS = (
    "buffer.explorer_input.eval_tasksets",
    "data_processor.experience_pipeline.operators.args.reward_shaping_configs",
    "data_processor.experience_pipeline.operators",
    "data_processor.task_pipeline.operators",
    "data_processor.task_pipeline.inputs",
    "data_processor.task_pipeline.target_fields",
    "explorer.auxiliary_models",
    "model.lora_configs",
    "stages",
)
VALUES: Mapping[str, Any] = {
    "mode": "explore",
    "algorithm.algorithm_type": "gspo",
    "algorithm.optimizer.lr": 1e-5,
    "algorithm.sample_strategy": "default",
    "model.lora_configs": [{"lora_rank": 8}],
    "explorer.auxiliary_models": [{"model_path": "x"}],
    "stages": [{"stage_name": "s"}],
    "data_processor.experience_pipeline.operators": [{"name": "x"}],
    "model.rope_scaling": {"rope_type": "yarn"},
    "buffer.trainer_input.auxiliary_buffers": {"other": {"path": "x"}},
    "buffer.trainer_input.auxiliary_buffers.buffer_1": {"path": "x"},
    "buffer.trainer_input.auxiliary_buffers.buffer_2": {"path": "x"},
    "buffer.trainer_input.auxiliary_buffers.sft_dataset": {"path": "x"},
    "buffer.trainer_input.auxiliary_buffers.other_buffer": {"path": "x"},
    "buffer.trainer_input.auxiliary_buffers.sft_dataset.format": {"prompt_key": "question"},
    "buffer.trainer_input.experience_buffer": {"capacity": 3},
    "buffer.trainer_input.experience_buffer.storage_type": "sql",
    "buffer.trainer_input.experience_buffer.max_read_timeout": 60.0,
    "explorer.rollout_model.engine_type": "sglang",
    "synchronizer.sync_method": "checkpoint",
    "synchronizer.sync_style": "explorer_driven",
    "trainer.trainer_strategy": "fsdp",
    "trainer.save_strategy": "single_thread",
    "trainer.trainer_config": {"actor": {"entropy_checkpointing": True}},
    "trainer.max_token_len_per_gpu": 40000,
    "trainer.save_hf_checkpoint": "last",
    "service.data_juicer": {"auto_start": True},
    "service.data_juicer.auto_start": True,
    "service.data_juicer.port": 8000,
    "log.level": "DEBUG",
    "explorer.env_vars": {"A": "b"},
    "explorer.auxiliary_models.tensor_parallel_size": 2,
    "stages.stage_name": "warm",
    "stages.mode": "explore",
    "stages.algorithm": {"algorithm_type": "grpo"},
    "stages.algorithm.algorithm_type": "grpo",
    "stages.buffer": {"total_steps": 3},
    "stages.buffer.train_batch_size": 3,
    "stages.buffer.total_steps": 3,
    "stages.buffer.trainer_input": {"experience_buffer": {"path": "x"}},
    "stages.buffer.trainer_input.experience_buffer": {"path": "x"},
    "data_processor.experience_pipeline.operators.args": {"a": 1},
    "data_processor.task_pipeline": {"num_process": 2},
    "data_processor.task_pipeline.num_process": 2,
    "monitor.monitor_type": "tensorboard",
    "monitor.monitor_args": {"a": 1},
}
"""Where another value than the default plus one is needed."""
BESIDE: Mapping[str, Any] = {
    key: {"monitor": {"monitor_type": "tensorboard"}} for key in GUIDE["trinity"] if key.startswith("monitor.monitor_args")
}
"""What it takes for a key to mean something."""
ITEMS: Mapping[str, Any] = {
    "stages": {"stage_name": "s"},
    "explorer.auxiliary_models": {"model_path": "x"},
    "data_processor.experience_pipeline.operators": {"name": "reward_filter"},
}
"""The same for the items of a list."""
USED_AT: Mapping[str, tuple[str, ...]] = {
    "algorithm.optimizer.lr": ("algorithm.sample_strategy_args.lr", "verl.actor.optim.lr"),
    "trainer.grad_clip": ("verl.actor.optim.clip_grad",),
    "trainer.ulysses_sequence_parallel_size": (
        "algorithm.policy_loss_fn_args.sequence_parallel",
        "algorithm.sample_strategy_args.sequence_parallel",
        "verl.actor.ulysses_sequence_parallel_size",
        "verl.ref.ulysses_sequence_parallel_size",
    ),
    "trainer.use_dynamic_bsz": ("verl.actor.use_dynamic_bsz",),
    "trainer.max_token_len_per_gpu": ("verl.actor.ppo_max_token_len_per_gpu", "verl.ref.log_prob_max_token_len_per_gpu"),
    "trainer.trainer_strategy": ("verl.actor.strategy",),
    "trainer.trainer_config": ("verl",),
    "model.lora_configs.lora_rank": ("verl.model.lora_rank", "explorer.rollout_model.lora_kwargs.max_lora_rank"),
    "stages.buffer.total_steps": ("buffer.total_steps", "verl.actor.optim.total_training_steps"),
    "synchronizer.sync_interval": ("synchronizer.explorer_sync_interval", "synchronizer.trainer_sync_interval"),
    "monitor.monitor_type": ("monitor.beside",),
    "monitor.monitor_args": ("monitor.monitor_args.also.tensorboard",),
    "monitor.monitor_args.base_url": ("monitor.monitor_args.also.tensorboard.base_url",),
    "monitor.monitor_args.api_key": ("monitor.monitor_args.also.tensorboard.api_key",),
}
"""Where the value is used, if not at its own key."""
SECTIONS = {key for key in GUIDE["trinity"] if key not in VALUES and any(one.startswith(f"{key}.") for one in GUIDE["trinity"])}
"""Whose keys are tested one by one."""


def value_for(key: str, default: Any) -> Any:
    if key in VALUES:
        return VALUES[key]
    match default:
        case bool():
            return not default
        case int():
            return default + 1
        case float():
            return default + 0.5
        case dict():
            return {"x": 1}
        case list():
            return []
    return "x"


def at(tree: Any, key: str) -> Any:
    """Return what stands at a key of the guide, which does not count the places of a list."""
    for part in key.split("."):
        if isinstance(tree, list):
            tree = tree[0] if tree else None
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree[0] if isinstance(tree, list) and len(tree) == 1 and isinstance(tree[0], str) else tree


def written(key: str, value: Any) -> Any:
    """Return the nested section that sets a key of the guide, alone."""
    parts = key.split(".")
    for place in range(len(parts), 0, -1):
        path = ".".join(parts[:place])
        inner = value if place == len(parts) else {parts[place]: value}
        if path in LISTS:
            value = inner if isinstance(inner, list) else [{**ITEMS[path], **inner} if path in ITEMS else inner]
        else:
            value = inner
    return {parts[0]: value}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function from a native configuration to what Trinity's parts are given in the end, and verl's workers (`verl`)."""
    pytest.importorskip("trinity")
    from omegaconf import OmegaConf
    from trinity.common import config_validator
    from trinity.common.config import Config, load_config
    from trinity.trainer.verl.config import build_verl_config

    from astuner_trinity.launch import TRAINING, _settle, wrap_check
    from astuner_trinity.session import _write_text

    monkeypatch.setattr(config_validator, "create_dummy_lora", lambda **_: "adapter")
    wanted = Wanted(layout=Layout(tmp_path), model="/model", total_steps=9, loss_agg_mode="token-mean")

    def of(native: Mapping[str, Any]) -> dict[str, Any]:
        path = tmp_path / "trinity.yaml"
        path.write_text(_write_text(finish_configuration(native, Machine(gpus=8), wanted)))
        config = load_config(str(path))
        stages = [stage.stage_name for stage in config.stages]
        if stages:
            config = next(iter(config))
        wrap_check(Config.check_and_update)(config)
        _settle(config)
        assert config.name == "/".join(["run", *stages])
        found: dict[str, Any] = to_plain(config) | {"stages": [{"stage_name": name} for name in stages]}
        found["monitor"]["beside"] = list(config.monitor.monitor_args["also"])
        if config.mode in TRAINING:
            verl: Any = OmegaConf.to_container(build_verl_config(config))
            found["verl"] = verl if verl["critic"].pop("enable") else {**verl, "critic": None}
        return found

    return of


@pytest.mark.parametrize("key", [key for key in GUIDE["trinity"] if key not in SECTIONS])
def test_a_key_of_the_guide_reaches_trinity_or_is_answered(
    native: Callable[..., Native], used: Callable[[Mapping[str, Any]], dict[str, Any]], key: str
) -> None:
    value = value_for(key, at(fill_open_values(native().tree), key))
    found = native(text=yaml.safe_dump({"trinity": merge(BESIDE.get(key, {}), written(key, value))}))
    if found.problems:
        answered(found, key)
        return
    tree = used(found.tree)
    own = key if key == "stages.stage_name" else key.removeprefix("stages.")
    for place in USED_AT.get(key, (own,)):
        assert holds(at(tree, place), value), (place, at(tree, place), value)


def holds(reached: Any, value: Any) -> bool:
    """Whether a value was reached, with whatever the defaults have put beside it."""
    if isinstance(value, dict) and isinstance(reached, Mapping):
        return all(holds(reached.get(name), one) for name, one in value.items())
    if isinstance(value, list) and isinstance(reached, list):
        return len(reached) == len(value) and all(map(holds, reached, value))
    return bool(reached == value)


def answered(found: Native, key: str) -> None:
    said = "\n".join(problem.message for problem in found.problems)
    places = [problem.key.removeprefix("trinity.").replace("[0]", "") for problem in found.problems]
    assert all(key.startswith(place) or place.startswith(key) for place in places), said
    assert len(said) > 30


@pytest.mark.parametrize("key", GUIDE["verl"])
def test_a_key_of_the_guides_verl_block_reaches_verl_or_is_answered(
    native: Callable[..., Native], used: Callable[[Mapping[str, Any]], dict[str, Any]], key: str
) -> None:
    written: Any = "x"
    for part in reversed(f"trinity.trainer.trainer_config.{key}".split(".")):
        written = {part: written}
    found = native(text=yaml.safe_dump(written))
    if found.problems:
        assert [problem.key for problem in found.problems] == [f"trinity.trainer.trainer_config.{key}"]
        return
    assert at(used(found.tree), f"verl.{key.removeprefix('actor_rollout_ref.')}") == "x"


RENAMED = [
    ("{buffer: {default_workflow_type: math_workflow}}", "buffer.explorer_input.default_workflow_type"),
    ("{buffer: {default_reward_fn_type: math}}", "buffer.explorer_input.default_reward_fn_type"),
    ("{algorithm: {optimizer: {warmup_style: cosine}}}", "trainer_common.optim.lr_scheduler_type"),
    ("{explorer: {runner_num: 8}}", "explorer.runner_per_model"),
    ("{trainer: {trainer_config_path: x.yaml}}", "trainer.trainer_config"),
    ("{explorer: {rollout_model: {max_num_seqs: 8}}}", ""),
    (
        "{buffer: {trainer_input: {experience_buffer: {replay_buffer: {enable: true, priority_fn: "
        "linear_decay_use_count_control_randomization}}}}}",
        "decay_limit_randomization",
    ),
]


@pytest.mark.parametrize(("text", "named"), RENAMED)
def test_what_is_called_otherwise_now_is_answered_with_its_name(native: Callable[..., Native], text: str, named: str) -> None:
    (problem,) = native(text=f"\ntrinity: {text}\n").problems
    assert named in f"{problem.message} {problem.suggestion}"


SQL = "buffer: {trainer_input: {experience_buffer: {storage_type: sql, path: 'sqlite:///rows.db'}}}"
REFUSED = [
    ("{trainer: {trainer_type: tinker}}", "only verl is supported"),
    ("{model: {tinker: {enable: true}}}", "Tinker's engine is not supported"),
    ("{model: {external_model: {enable: true}}}", "an external model's engine is not supported"),
    ("{trainer: {trainer_strategy: megatron}}", "'megatron' is not supported"),
    ("{explorer: {eval_on_startup: true}}", "the mode bench begins with model.path"),
    ("{algorithm: {algorithm_type: ppo}}", "trains a critic"),
    ("{algorithm: {policy_loss_fn: gspo}}", "set algorithm.algorithm_type too"),
    ("{algorithm: {policy_loss_fn_args: {clip_ratio_low: 0.1}}}", "those of ppo_clip are trainer_common.clip_ratio_low"),
    ("{algorithm: {policy_loss_fn_args: {clip_range: 0.1}}}", "trainer_common.algorithm.policy_loss names the loss"),
    ("{stages: [{stage_name: s, algorithm: {policy_loss_fn_args: {clip_range: 0.1}}}]}", "For one of Trinity's own"),
    ("{explorer: {over_rollout: {ratio: 0.2}}}", "not with the sync_style fixed"),
    ("{algorithm: {bypass_old_logprobs: false}}", "held against the probabilities of the sampler"),
    ("{algorithm: {sample_strategy: staleness_control}}", "set algorithm.algorithm_type too"),
    ("{buffer: {trainer_input: {auxiliary_buffers: {x: {path: y}}}}}", "only algorithms of Trinity's own read them"),
    ("{mode: train}", "the rows come from a buffer that was written before"),
    ("{mode: bnch}", "unknown mode 'bnch'; the modes are both"),
    ("{buffer: {trainer_input: {experience_buffer: {storage_type: file}}}}", "cannot be read while it is written"),
    ("{algorithm: {algorithm_type: mix}}", "takes a fixed number of rows"),
    ("{algorithm: {algorithm_type: grpo, sample_strategy: staleness_control}}", "takes a fixed number of rows"),
    (f"{{synchronizer: {{sync_interval: 2}}, {SQL}}}", "would mix them"),
    (f"{{synchronizer: {{sync_offset: 1}}, {SQL}}}", "would mix them"),
    (f"{{synchronizer: {{sync_style: fully_async}}, {SQL}}}", "would mix them"),
    (f"{{mode: colocate, synchronizer: {{sync_style: explorer_driven}}, {SQL}}}", "would mix them"),
    ("{trainer: {save_hf_checkpoint: last}}", "each checkpoint is a model"),
    ("{algorithm: {optimizer: {clip_grad: 0.3}}}", "trainer_common.grad_clip decides it"),
    # Those that Trinity takes, and no part of a run reads.
    ("{model: {min_response_tokens: 3}}", "never for a least number"),
    ("{model: {max_prompt_tokens: 3}}", "data.max_prompt_length decides it"),
    ("{model: {max_response_tokens: 3}}", "data.max_response_length decides it"),
    ("{model: {critic_model_path: x}}", "no algorithm here trains a critic"),
    ("{explorer: {eval_on_startup: false}}", "the mode bench begins with model.path"),
    ("{monitor: {monitor_args: {base_url: x}}}", "applies to a monitor of Trinity"),
    (
        "{data_processor: {experience_pipeline: {operators: [{name: reward_shaping_mapper}]}}}",
        "after the advantages were computed",
    ),
    ("{algorithm: {algorithm_type: sft}}", "trains on what others wrote"),
    ("{stages: [{stage_name: s, trainer: {trainer_type: tinker}}]}", "only verl is supported"),
    ("{stages: [{stage_name: s, algorithm: {algorithm_type: ppo}}]}", "trains a critic"),
    ("{stages: [{stage_name: s, mode: bnch}]}", "unknown mode 'bnch'; the modes are both"),
    ("{stages: [{stage_name: s, mode: train}]}", "the rows come from a buffer that was written before"),
    ("{stages: [{stage_name: s, buffer: {batch_size: 99}}]}", "data.train_batch_size decides it"),
    ("{stages: [{stage_name: s, explorer: {eval_interval: 3}}]}", "test_freq decide when validation is played"),
    ("{stages: [{stage_name: s, algorithm: {optimizer: {lr_warmup_steps: 3}}}]}", "decides it, step by step"),
    ("{synchronizer: {sync_interval: two}}", "Trinity says"),
    ("{synchroniser: {sync_interval: 2}}", "no such native key"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_would_not_work_is_refused_before_anything_starts(native: Callable[..., Native], text: str, said: str) -> None:
    (problem,) = native(text=f"\ntrinity: {text}\n").problems
    assert said in problem.message
    assert problem.key.startswith("trinity.stages[0]." if "stages" in text else "trinity.")


def test_what_a_run_has_wrong_is_not_said_again_of_each_stage(native: Callable[..., Native]) -> None:
    stages = "[{stage_name: a}, {stage_name: b}]"
    (problem,) = native(text=f"\ntrinity: {{trainer: {{trainer_type: tinker}}, stages: {stages}}}\n").problems
    assert problem.key == "trinity.trainer.trainer_type"


def test_a_stage_that_trains_on_what_others_wrote_has_an_optimizer_of_its_own(native: Callable[..., Native]) -> None:
    buffer = "buffer: {total_steps: 3, trainer_input: {experience_buffer: {storage_type: file, path: x}}}"
    own = "algorithm: {algorithm_type: sft, optimizer: {lr: 1.0e-5, lr_warmup_steps: 3}}"
    stage = f"{{stage_name: s, mode: train, {own}, {buffer}}}"
    text = f"\ntrinity: {{stages: [{stage}]}}\n"
    assert native(text=text).problems == ()
    (problem,) = native("trainer_common.save_freq=-1", text=text).problems
    assert "set trainer_common.save_freq to 1 or more" in problem.message


@pytest.mark.parametrize(
    "text",
    [
        f"{{mode: both, {SQL}}}",
        f"{{mode: train, synchronizer: {{sync_interval: 4}}, {SQL}}}",
        "{algorithm: {algorithm_type: grpo}}",
    ],
)
def test_steps_that_nothing_can_mix_are_taken(native: Callable[..., Native], text: str) -> None:
    assert native(text=f"\ntrinity: {text}\n").problems == ()
