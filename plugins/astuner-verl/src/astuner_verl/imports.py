"""What `astuner config import` makes of verl's own keys, next to those that the alignment decides from one of our keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from astuner.settings.config.alignment import Import

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
ONE_ENGINE = "FSDP is the training engine that is driven here"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
IMAGES = "images, video and sound are refused: agents send text"
DATA: Mapping[str, str] = {
    "data.truncation": "nothing is cut: a prompt that does not fit ends its episode, and is counted",
    "data.filter_overlong_prompts": "a prompt that does not fit ends its episode, and is counted",
    "data.filter_overlong_prompts_workers": "a prompt that does not fit ends its episode, and is counted",
    "data.return_raw_chat": "the gateway renders the conversations that agents send",
    "data.return_multi_modal_inputs": IMAGES,
    "data.image_key": IMAGES,
    "data.video_key": IMAGES,
    "data.audio_key": IMAGES,
    "data.image_patch_size": IMAGES,
    "data.trust_remote_code": "models and tokenizers that bring code are not loaded",
    "data.val_batch_size": "validation plays as many episodes at once as rollout.max_env_worker allows",
    "data.gen_batch_size": "data.train_batch_size is what is played for a step",
    "data.dataloader_num_workers": "one reader yields the tasks: task_reader",
    "data.apply_chat_template_kwargs": "an agent passes chat_template_kwargs with its calls",
    "data.seed": "seed decides the order of the tasks",
}
"""Why a key of the data has no counterpart."""
LOGGERS = ("console", "tensorboard", "wandb", "mlflow", "swanlab", "trackio")


def _read_files(training: Any, validation: Any, prompt: Any) -> Keys:
    columns = {"init_messages": prompt} if isinstance(prompt, str) else COLUMNS
    found: dict[str, Any] = {}
    for split, files in (("training", training), ("validation", validation)):
        listed = files if isinstance(files, list) else [] if files is None else [files]
        if listed:
            if not str(listed[0]).endswith(FILES):
                raise ValueError(f"{listed[0]}: task_reader reads {', '.join(FILES)}")
            found[split] = {"file_path": str(listed[0]), "columns": columns}
    return {"task_reader.type": "dataset_file", "task_reader.dataset_file": found}


def _note_files(training: Any, validation: Any, prompt: Any) -> str:
    most = max(len(files) if isinstance(files, list) else 1 for files in (training, validation))
    return f"the first of {most} files: task_reader takes one for each split, so join them" if most > 1 else ""


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


def _read_prompt_key(name: Any) -> Keys:
    if name == COLUMNS["init_messages"]:
        return {}
    raise ValueError("task_reader.dataset_file names the columns")


def _read_overlong(enabled: Any, length: Any, factor: Any, most: Any, response: Any) -> Keys:
    if not enabled:
        return {}
    most = response if most is None else most
    if not isinstance(length, int) or not isinstance(most, int) or length > most:
        raise ValueError("task_judge.reward.overlong has from_tokens and over_tokens, the tokens before and of the buffer")
    found = {"from_tokens": most - length, "over_tokens": length, "penalty": 1.0 if factor is None else factor}
    return {f"task_judge.reward.overlong.{key}": value for key, value in found.items()}


def _read_manager(manager: Any) -> Keys:
    if isinstance(manager, Mapping) and manager.get("name") in ("naive", "dapo"):
        return {}
    raise ValueError("task_judge decides the reward: a judge of yours takes the task and the output")


def _read_discount(factor: Any) -> Keys:
    if factor in (1, 1.0):
        return {}
    raise ValueError("an episode has one advantage, and nothing is discounted")


def _read_engine_group(name: Any) -> Keys:
    if name in ("dp", "fsdp", "fsdp2"):
        return {}
    raise ValueError(f"{name}: {ONE_ENGINE}")


def _refuse(reason: str) -> Callable[..., Keys]:
    def refuse(*_: Any) -> Keys:
        raise ValueError(reason)

    return refuse


IMPORTS = (
    Import(("data.train_files", "data.val_files", "data.prompt_key"), _read_files, asks=2, note=_note_files),
    Import("data.prompt_key", _read_prompt_key),
    Import("data.shuffle", _read_as("data.shuffle")),
    *(Import(key, _refuse(reason)) for key, reason in DATA.items()),
    Import(
        (
            f"{OVERLONG}.enable",
            f"{OVERLONG}.len",
            f"{OVERLONG}.penalty_factor",
            "reward.reward_kwargs.max_resp_len",
            "data.max_response_length",
        ),
        _read_overlong,
        asks=4,
    ),
    Import(f"{OVERLONG}.log", _refuse("the penalty is logged as `reward/overlong`")),
    Import("reward.reward_manager", _read_manager),
    Import("reward.reward_model", _refuse("a judge asks any model: task_judge.judge_type llm, or one of your own")),
    Import("algorithm.gamma", _read_discount),
    Import("algorithm.lam", _read_discount),
    Import("trainer.resume_mode", _refuse("`astuner run --resume` continues a run")),
    Import("trainer.resume_from_path", _refuse("`astuner run --resume-from` continues a run")),
    Import("trainer.default_local_dir", _refuse("everything of a run is in its directory: experiment_dir")),
    Import("model_engine", _read_engine_group),
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
    Import(f"{ROLLOUT}.temperature", _read_as("rollout.temperature")),
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
