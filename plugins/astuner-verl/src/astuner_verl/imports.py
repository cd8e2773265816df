"""What `astuner config import` makes of verl's own keys, next to those that the alignment decides from one of our keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astuner.config.alignment import Import

Keys = Mapping[str, Any]

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
FILES = (".parquet", ".jsonl", ".json", ".csv", ".tsv")
COLUMNS = {"init_messages": "prompt"}
"""verl's data sets hold the conversation in the column `prompt`."""
DTYPES = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp32": "float32", "float32": "float32"}
ESTIMATORS = {
    "grpo": "grpo",
    "rloo": "rloo",
    "reinforce_plus_plus": "reinforce_plus_plus",
    "reinforce_plus_plus_baseline": "reinforce_plus_plus_baseline",
}
LOGGERS = ("console", "tensorboard", "wandb", "mlflow", "swanlab", "trackio")


def _read_files(training: Any, validation: Any, prompt: Any) -> Keys:
    columns = {"init_messages": prompt} if isinstance(prompt, str) else COLUMNS
    found: dict[str, Any] = {}
    for split, files in (("training", training), ("validation", validation)):
        listed = files if isinstance(files, list) else [] if files is None else [files]
        if len(listed) > 1:
            raise ValueError("the reader dataset_file takes one file for each split: join them, or name a directory of the hub's")
        if listed:
            if not str(listed[0]).endswith(FILES):
                raise ValueError(f"{listed[0]}: task_reader reads {', '.join(FILES)}")
            found[split] = {"file_path": str(listed[0]), "columns": columns}
    return {"task_reader.type": "dataset_file", "task_reader.dataset_file": found}


def _read_mini_batch(mini: Any, batch: Any) -> Keys:
    try:
        parts, rest = divmod(int(batch), int(mini))
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError("trainer_common.mini_batch_num divides data.train_batch_size") from None
    if rest:
        raise ValueError(f"{mini} does not divide data.train_batch_size ({batch}): trainer_common.mini_batch_num is the quotient")
    return {"trainer_common.mini_batch_num": parts}


def _read_estimator(name: Any) -> Keys:
    if name == "gae":
        raise ValueError("there is no critic: advantages are relative to a task's episodes")
    if name not in ESTIMATORS:
        raise ValueError(f"{name}: trainer_common.algorithm.adv_estimator has {', '.join(sorted(ESTIMATORS))}")
    return {"trainer_common.algorithm.adv_estimator": ESTIMATORS[name]}


def _read_clip(both: Any, low: Any, high: Any) -> Keys:
    below, above = both if low is None else low, both if high is None else high
    found = {"trainer_common.clip_ratio_low": below, "trainer_common.clip_ratio_high": above}
    return {key: value for key, value in found.items() if value is not None}


def _read_loggers(names: Any) -> Keys:
    listed = names if isinstance(names, list) else [names]
    known = [name for name in listed if name in LOGGERS]
    if len(known) != len(listed):
        raise ValueError(f"trainer_common.logger has {', '.join(LOGGERS)}")
    return {"trainer_common.logger": known}


def _read_dtype(name: Any) -> Keys:
    if name not in DTYPES:
        raise ValueError(f"model.dtype has {', '.join(sorted(set(DTYPES.values())))}")
    return {"model.dtype": DTYPES[name]}


def _read_as(key: str) -> Any:
    return lambda value: {key: value}


def _read_reward(*_: Any) -> Keys:
    raise ValueError("task_judge decides the reward: a judge of yours takes the task and the output")


def _read_warmup(ratio: Any) -> Keys:
    if ratio in (0, 0.0):
        return {}
    raise ValueError("trainer_common.optim.lr_warmup_steps counts steps")


def _read_warmup_steps(steps: Any) -> Keys:
    return {} if isinstance(steps, int) and steps < 0 else {"trainer_common.optim.lr_warmup_steps": steps}


IMPORTS = (
    Import(("data.train_files", "data.val_files", "data.prompt_key"), _read_files, asks=2),
    Import((f"{ACTOR}.ppo_mini_batch_size", "data.train_batch_size"), _read_mini_batch, asks=1),
    Import("algorithm.adv_estimator", _read_estimator),
    Import("algorithm.norm_adv_by_std_in_grpo", _read_as("trainer_common.algorithm.norm_adv_by_std_in_grpo")),
    Import("algorithm.filter_groups.enable", _read_as("trainer_common.algorithm.filter_groups.enable")),
    Import("algorithm.filter_groups.max_num_gen_batches", _read_as("trainer_common.algorithm.filter_groups.max_num_gen_batches")),
    Import((f"{ACTOR}.clip_ratio", f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high"), _read_clip),
    Import(f"{ACTOR}.use_kl_loss", _read_as("trainer_common.use_kl_loss")),
    Import(f"{ACTOR}.loss_agg_mode", _read_as("trainer_common.loss_agg_mode")),
    Import(f"{ACTOR}.optim.lr_warmup_steps", _read_warmup_steps),
    Import(f"{ACTOR}.optim.lr_warmup_steps_ratio", _read_warmup),
    Import(f"{ACTOR}.optim.lr_scheduler_type", _read_as("trainer_common.optim.lr_scheduler_type")),
    Import(f"{ACTOR}.optim.warmup_style", _read_as("trainer_common.optim.lr_scheduler_type")),
    Import(f"{ROLLOUT}.name", _read_as("rollout.name")),
    Import(f"{ROLLOUT}.dtype", _read_dtype),
    Import("actor_rollout_ref.model.lora_alpha", _read_as("model.lora_alpha")),
    Import("trainer.logger", _read_loggers),
    Import("trainer.save_freq", _read_as("trainer_common.save_freq")),
    Import("trainer.test_freq", _read_as("trainer_common.test_freq")),
    Import("trainer.val_before_train", _read_as("trainer_common.val_before_train")),
    Import("trainer.total_epochs", _read_as("trainer_common.total_epochs")),
    Import("trainer.total_training_steps", _read_as("trainer_common.total_training_steps")),
    Import("trainer.max_actor_ckpt_to_keep", _read_as("trainer_common.max_checkpoints_to_keep")),
    Import("reward.custom_reward_function", _read_reward),
    Import("custom_reward_function", _read_reward),
)
