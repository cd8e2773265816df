"""Every key of Trinity's configuration guide reaches Trinity's configuration, or is answered with what to do instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.config.native import Native
from astuner_trinity.native import opened

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
    "stages.mode": "train",
    "stages.algorithm": {"algorithm_type": "sft"},
    "stages.algorithm.algorithm_type": "sft",
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
_defaults: dict[str, Any] = {}


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
            if isinstance(inner, list):
                value = inner
            else:
                value = [{"stage_name": "s", **inner} if path == "stages" and isinstance(inner, dict) else inner]
        else:
            value = inner
    return {parts[0]: value}


@pytest.mark.parametrize("key", GUIDE["trinity"])
def test_a_key_of_the_guide_reaches_trinity_or_is_answered(native: Callable[..., Native], key: str) -> None:
    if not _defaults:
        _defaults.update(opened(native().tree))
    before = at(_defaults, key)
    if isinstance(before, Mapping) and before and key not in VALUES:
        return  # a section, whose keys are tested one by one
    value = value_for(key, before)
    found = native(text=yaml.safe_dump({"trinity": written(key, value)}))
    if found.problems:
        said = "\n".join(problem.message for problem in found.problems)
        places = [problem.key.removeprefix("trinity.").split("[")[0] for problem in found.problems]
        assert any(key.startswith(place) or place.startswith(key) for place in places), said
        assert len(said) > 30
        return
    reached = at(found.tree, key)
    if isinstance(value, dict) and isinstance(reached, Mapping):
        reached = {name: reached[name] for name in value}
    assert reached == value


@pytest.mark.parametrize("key", GUIDE["verl"])
def test_a_key_of_the_guides_verl_block_reaches_verl_or_is_answered(native: Callable[..., Native], key: str) -> None:
    written: Any = "x"
    for part in reversed(f"trinity.trainer.trainer_config.{key}".split(".")):
        written = {part: written}
    found = native(text=yaml.safe_dump(written))
    if found.problems:
        assert [problem.key for problem in found.problems] == [f"trinity.trainer.trainer_config.{key}"]
        return
    assert at(found.tree, f"trainer.trainer_config.{key}") == "x"


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


REFUSED = [
    ("{trainer: {trainer_type: tinker}}", "only verl is driven"),
    ("{model: {tinker: {enable: true}}}", "Tinker's engine is not driven"),
    ("{model: {external_model: {enable: true}}}", "an external model's engine is not driven"),
    ("{trainer: {trainer_strategy: megatron}}", "'megatron' is not driven"),
    ("{explorer: {eval_on_startup: true}}", "only the mode bench reads it"),
    ("{algorithm: {algorithm_type: ppo}}", "trains a critic"),
    ("{algorithm: {policy_loss_fn: gspo}}", "set algorithm.algorithm_type too"),
    ("{explorer: {over_rollout: {ratio: 0.2}}}", "not with the sync_style fixed"),
    ("{algorithm: {bypass_old_logprobs: false}}", "held against the probabilities of the sampler"),
    ("{algorithm: {sample_strategy: staleness_control}}", "set algorithm.algorithm_type too"),
    ("{buffer: {trainer_input: {auxiliary_buffers: {x: {path: y}}}}}", "only algorithms of Trinity's own read them"),
    ("{mode: train}", "the rows come from a buffer that was written before"),
    ("{mode: bnch}", "'bnch' is none of both"),
    ("{buffer: {trainer_input: {experience_buffer: {storage_type: file}}}}", "cannot be read while it is written"),
    ("{synchronizer: {sync_interval: two}}", "Trinity says"),
    ("{synchroniser: {sync_interval: 2}}", "no such native key"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_would_not_work_is_refused_before_anything_starts(native: Callable[..., Native], text: str, said: str) -> None:
    (problem,) = native(text=f"\ntrinity: {text}\n").problems
    assert said in problem.message
    assert problem.key.startswith("trinity.")
