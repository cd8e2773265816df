"""What `astuner config import` makes of Trinity's own keys, next to those that the alignment decides from one of our keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astuner.settings.config.alignment import Import
from astuner_trinity.native_keys import ENGINE, LOSS

Keys = Mapping[str, Any]

COLUMN_KEYS = {"prompt_key": "main_query", "response_key": "answer", "messages_key": "init_messages"}
"""Trinity's names of columns, and ours for what is in them."""
FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
LOGGERS = ("tensorboard", "wandb", "mlflow", "swanlab")
KL_TYPES = {"k1": "kl", "k2": "mse", "k3": "low_var_kl", "low_var_kl": "low_var_kl", "abs": "abs"}
ESTIMATORS = {"grpo": "grpo", "rloo": "rloo", "reinforceplusplus": "reinforce_plus_plus"}
LOSSES: Mapping[str, Mapping[str, float]] = {"gspo": {}, "cispo": {"clip_ratio_high": 0.28}}
"""Algorithms that are GRPO with another loss, whose formula is the same here, and bounds of theirs that are not our defaults."""
TASKSET = "buffer.explorer_input.taskset"


def _read_tasks(taskset: Any, tests: Any) -> Keys:
    if not isinstance(taskset, Mapping) or not taskset.get("path"):
        raise ValueError("it names no data: task_reader decides where tasks come from")
    validation = tests[0] if isinstance(tests, list) and tests and isinstance(tests[0], Mapping) else {}
    columns = {
        ours: taskset["format"][theirs]
        for theirs, ours in COLUMN_KEYS.items()
        if isinstance(taskset.get("format"), Mapping) and taskset["format"].get(theirs)
    }
    path = str(taskset["path"])
    if path.endswith(FILES):
        reader: dict[str, Any] = {"training": {"file_path": path, "columns": columns}}
        if str(validation.get("path", "")).endswith(FILES):
            reader["validation"] = {"file_path": str(validation["path"]), "columns": columns}
        return {"task_reader.type": "dataset_file", "task_reader.dataset_file": reader, **_read_validation(validation)}
    hub: dict[str, Any] = {
        "dataset_path": path,
        "training_split": taskset.get("split") or "train",
        "validation_split": (validation.get("split") or "test") if validation else None,
        "columns": columns,
    }
    if taskset.get("subset_name"):
        hub["config_name"] = taskset["subset_name"]
    return {
        "task_reader.type": "huggingface_dat_repo",
        "task_reader.huggingface_dat_repo": hub,
        **_read_validation(validation),
    }


def _note_tests(taskset: Any, tests: Any) -> str:
    if not isinstance(tests, list) or len(tests) < 2:
        return ""
    return f"the first of {len(tests)} validation sets is taken: evaluate the others by `astuner eval`"


def _read_validation(validation: Keys) -> Keys:
    arguments = validation.get("rollout_args")
    found: dict[str, Any] = {}
    if isinstance(arguments, Mapping):
        for theirs in ("temperature", "top_p", "top_k"):
            if arguments.get(theirs) is not None:
                found[f"rollout.val_kwargs.{theirs}"] = arguments[theirs]
        if arguments.get("temperature"):
            found["rollout.val_kwargs.do_sample"] = True
    if validation.get("repeat_times"):
        found["trainer_common.val_pass_n"] = validation["repeat_times"]
    return found


def _read_lora(configs: Any) -> Keys:
    if not configs:
        return {}
    if not isinstance(configs, list) or len(configs) != 1 or not isinstance(configs[0], Mapping):
        raise ValueError("one adapter is trained: model.lora_rank, lora_alpha and target_modules")
    names = {"lora_rank": "model.lora_rank", "lora_alpha": "model.lora_alpha", "target_modules": "model.target_modules"}
    return {ours: configs[0][theirs] for theirs, ours in names.items() if theirs in configs[0]}


def _read_lengths(context: Any, prompt: Any, response: Any) -> Keys:
    if prompt is None and isinstance(context, int) and isinstance(response, int):
        prompt = context - response
    lengths = {"rollout.max_model_len": context, "data.max_prompt_length": prompt, "data.max_response_length": response}
    return {key: value for key, value in lengths.items() if value is not None}


def _read_rows(rows: Any, batch: Any, repeats: Any) -> Keys:
    try:
        steps, rest = divmod(int(rows), int(batch) * int(repeats))
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError("data.train_batch_size, rollout.num_repeat and rollout.multi_turn.expected_steps decide it") from None
    if rest or steps < 1:
        raise ValueError("a step trains all rows of its episodes: data.train_batch_size x rollout.num_repeat decide it")
    return {} if steps == 1 else {"rollout.multi_turn.expected_steps": steps}


def _read_algorithm(name: Any, masked: Any) -> Keys | None:
    if name == "ppo":
        raise ValueError("no algorithm here trains a critic; the advantages are relative to a task's episodes")
    if name in LOSSES and not masked:
        bounds = {f"trainer_common.algorithm.{name}.{key}": bound for key, bound in LOSSES[name].items()}
        return {"trainer_common.algorithm.policy_loss": name, **bounds}
    return {"trainer_common.algorithm.adv_estimator": ESTIMATORS[name]} if name in ESTIMATORS else None


def _read_divergence(name: Any, coefficient: Any) -> Keys:
    if name == "none" or (name is None and coefficient in (None, 0, 0.0)):
        return {"trainer_common.use_kl_loss": False}
    if name is not None and name not in KL_TYPES:
        raise ValueError(f"trainer_common.kl_loss_type has {', '.join(sorted(set(KL_TYPES.values())))}")
    found: dict[str, Any] = {"trainer_common.use_kl_loss": True}
    if name is not None:
        found["trainer_common.kl_loss_type"] = KL_TYPES[name]
    if coefficient is not None:
        found["trainer_common.kl_loss_coef"] = coefficient
    return found


def _read_interval(key: str) -> Any:
    return lambda steps: {f"trainer_common.{key}": steps if isinstance(steps, int) and steps > 0 else -1}


def _read_monitor(name: Any) -> Keys:
    if name not in LOGGERS:
        raise ValueError(f"trainer_common.logger has no {name!r}")
    return {"trainer_common.logger": ["console", name]}


def _read_engine(name: Any) -> Keys:
    if str(name).startswith("vllm"):
        return {"rollout.name": "vllm"}
    raise ValueError("vLLM is the engine that is driven under Trinity")


def _read_workflow(name: Any) -> Keys:
    raise ValueError(f"{name}: rollout.user_workflow names your agent; Trinity's own workflows are not played")


def _read_reward(name: Any) -> Keys:
    if str(name).startswith("math"):
        return {"task_judge.judge_type": "math"}
    raise ValueError(f"{name}: task_judge decides the reward")


def _read_clip(both: Any, low: Any, high: Any, name: Any, masked: Any) -> Keys | None:
    if masked or name not in (None, "ppo", *ESTIMATORS, *LOSSES):
        return None
    section = f"trainer_common.algorithm.{name}" if name in LOSSES else "trainer_common"
    below, above = both if low is None else low, both if high is None else high
    found = {f"{section}.clip_ratio_low": below, f"{section}.clip_ratio_high": above}
    return {key: value for key, value in found.items() if value is not None}


def _read_as(key: str) -> Any:
    return lambda value: {key: value}


CLIP = f"{LOSS}.clip_range"
ALGORITHM = ("algorithm.algorithm_type", f"{LOSS}.enable_mask_clip")
IMPORTS = (
    Import(f"{TASKSET}.default_workflow_type", _read_workflow),
    Import("buffer.explorer_input.default_workflow_type", _read_workflow),
    Import(f"{TASKSET}.default_reward_fn_type", _read_reward),
    Import("buffer.explorer_input.default_reward_fn_type", _read_reward),
    Import(f"{TASKSET}.rollout_args.temperature", _read_as("rollout.temperature")),
    Import((TASKSET, "buffer.explorer_input.eval_tasksets"), _read_tasks, note=_note_tests),
    Import("model.temperature", _read_as("rollout.temperature")),
    Import(("model.custom_chat_template", "model.chat_template_path"), lambda text, path: {"model.chat_template": text or path}),
    Import("model.lora_configs", _read_lora),
    Import(("model.max_model_len", "model.max_prompt_tokens", "model.max_response_tokens"), _read_lengths),
    Import(("buffer.train_batch_size", "buffer.batch_size", "algorithm.repeat_times"), _read_rows, asks=1),
    Import("buffer.total_steps", _read_as("trainer_common.total_training_steps")),
    Import("trainer.total_steps", _read_as("trainer_common.total_training_steps")),
    Import("explorer.eval_interval", _read_interval("test_freq")),
    Import("explorer.eval_on_startup", _read_as("trainer_common.val_before_train")),
    Import("trainer.save_interval", _read_interval("save_freq")),
    Import("trainer.max_checkpoints_to_keep", _read_as("trainer_common.max_checkpoints_to_keep")),
    Import(ALGORITHM, _read_algorithm, asks=1),
    Import(("algorithm.kl_loss_fn", "algorithm.kl_loss_fn_args.kl_coef"), _read_divergence),
    Import((CLIP, f"{CLIP}_low", f"{CLIP}_high", *ALGORITHM), _read_clip, asks=3),
    Import(f"{LOSS}.clip_ratio_c", _read_as("trainer_common.clip_ratio_c")),
    Import("algorithm.optimizer.lr_warmup_steps", _read_as("trainer_common.optim.lr_warmup_steps")),
    Import("algorithm.optimizer.lr_scheduler_type", _read_as("trainer_common.optim.lr_scheduler_type")),
    Import("algorithm.optimizer.warmup_style", _read_as("trainer_common.optim.lr_scheduler_type")),
    Import("monitor.monitor_type", _read_monitor),
    Import(f"{ENGINE}.engine_type", _read_engine),
    Import(f"{ENGINE}.seed", _read_as("rollout.seed")),
)
