"""What `astuner config import` makes of verl's own keys, next to those that the alignment decides from one of our keys."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from astuner.settings.config.alignment import Import

Keys = Mapping[str, Any]

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
LOSS_MODE = f"{ACTOR}.policy_loss.loss_mode"
FILES = (".parquet", ".jsonl", ".json", ".csv", ".tsv")
COLUMNS = {"init_messages": "prompt"}
"""verl's data sets hold the conversation in the column `prompt`."""
DTYPES = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp32": "float32", "float32": "float32"}
ESTIMATORS = {
    "grpo": "grpo",
    "rloo": "rloo",
    "reinforce_plus_plus": "reinforce_plus_plus",
    "reinforce_plus_plus_baseline": "reinforce_plus_plus_baseline",
    "opo": "opo",
    "remax": "remax",
    "grpo_passk": "pass_at_k",
}
ALGORITHM = "trainer_common.algorithm"
AGGREGATION, BY_SAMPLE = "trainer_common.loss_agg_mode", "seq-mean-token-mean"
AVERAGES = ("geo_mean", "sapo")
"""Losses that verl averages over each sample, whatever `loss_agg_mode` is."""
CORRECTION = "algorithm.rollout_correction"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
PLAIN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LOSSES: Mapping[str, Any] = PLAIN["losses"]
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


def _read_loss(mode: Any) -> Keys:
    if mode not in LOSSES:
        raise ValueError(f"{mode}: trainer_common.algorithm.policy_loss has the counterparts of {', '.join(LOSSES)}")
    found = {f"{ALGORITHM}.policy_loss": LOSSES[mode]["name"], **({AGGREGATION: BY_SAMPLE} if mode in AVERAGES else {})}
    return {**found, **LOSSES[mode].get("options", {})}


def _read_aggregation(how: Any, mode: Any) -> Keys:
    return {AGGREGATION: BY_SAMPLE if mode in AVERAGES else how}


def _read_clip(both: Any, low: Any, high: Any, mode: Any) -> Keys:
    prefix = LOSSES.get(mode, LOSSES["vanilla"]).get("clip")
    if prefix is None:
        raise ValueError(f"{mode} clips no ratio")
    below, above = both if low is None else low, both if high is None else high
    return _drop_missing({f"{prefix}_low": below, f"{prefix}_high": above})


def _read_dual_clip(most: Any, mode: Any) -> Keys:
    key = LOSSES.get(mode, LOSSES["vanilla"]).get("most")
    if key is None:
        raise ValueError(f"{mode} has no dual clip")
    return {key: most}


def _read_temperatures(positive: Any, negative: Any, mode: Any) -> Keys:
    if mode != "sapo":
        raise ValueError("only sapo has temperatures")
    return _drop_missing({f"{ALGORITHM}.sapo.tau_positive": positive, f"{ALGORITHM}.sapo.tau_negative": negative})


def _drop_missing(found: Keys) -> Keys:
    return {key: value for key, value in found.items() if value is not None}


def _read_bounds(threshold: Any) -> tuple[float | None, float | None]:
    """Return the upper and the lower bound of `2.0`, `"2.0"`, `"0.5_2.0"` or nothing."""
    if threshold is None:
        return None, None
    lower, _, upper = str(threshold).strip().rpartition("_")
    try:
        return float(upper), float(lower) if lower else None
    except ValueError:
        raise ValueError(f"{threshold}: a number, or two with _ between them, are bounds") from None


def _read_weights(level: Any, threshold: Any) -> Keys:
    if level is None:
        return {}
    if level not in ("token", "sequence"):
        raise ValueError(f"{level}: {ALGORITHM}.rollout_is has token, sequence")
    return _name_bounds("rollout_is", level, 2.0 if threshold is None else threshold)


def _read_rejection(measure: Any, threshold: Any) -> Keys:
    if measure is None:
        return {}
    if "," in str(measure):
        raise ValueError(f"{measure}: {ALGORITHM}.rollout_rs is one measure")
    return _name_bounds("rollout_rs", measure, threshold)


def _name_bounds(key: str, what: str, threshold: Any) -> Keys:
    name, (upper, lower) = f"{ALGORITHM}.{key}", _read_bounds(threshold)
    return _drop_missing({name: what, f"{name}_threshold": upper, f"{name}_lower": lower})


def _allow(values: list[Any], reason: str) -> Callable[..., Keys]:
    def read(value: Any) -> Keys:
        if value is not None and value not in values:
            raise ValueError(reason)
        return {}

    return read


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


def _read_warmup_steps(steps: Any) -> Keys:
    return {} if isinstance(steps, int) and steps < 0 else {"trainer_common.optim.lr_warmup_steps": steps}


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


def _refuse(reason: str) -> Callable[..., Keys]:
    def refuse(*_: Any) -> Keys:
        raise ValueError(reason)

    return refuse


IMPORTS = (
    *(Import(native, _read_as(key)) for native, key in PLAIN["same"].items()),
    *(Import(native, _refuse(why)) for native, why in PLAIN["dropped"].items()),
    *(Import(native, _allow(one["values"], one["why"])) for native, one in PLAIN["allowed"].items()),
    Import(("data.train_files", "data.val_files", "data.prompt_key"), _read_files, asks=2, note=_note_files),
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
    Import("reward.reward_manager", _read_manager),
    Import((f"{ACTOR}.ppo_mini_batch_size", "data.train_batch_size"), _read_mini_batch, asks=1),
    Import("algorithm.adv_estimator", _read_estimator),
    Import(LOSS_MODE, _read_loss),
    Import((f"{ACTOR}.clip_ratio", f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high", LOSS_MODE), _read_clip, asks=3),
    Import((f"{ACTOR}.clip_ratio_c", LOSS_MODE), _read_dual_clip, asks=1),
    Import((f"{ACTOR}.tau_pos", f"{ACTOR}.tau_neg", LOSS_MODE), _read_temperatures, asks=2),
    Import((f"{CORRECTION}.rollout_is", f"{CORRECTION}.rollout_is_threshold"), _read_weights),
    Import((f"{CORRECTION}.rollout_rs", f"{CORRECTION}.rollout_rs_threshold"), _read_rejection),
    Import((f"{ACTOR}.loss_agg_mode", LOSS_MODE), _read_aggregation, asks=1),
    Import(f"{ACTOR}.optim.lr_warmup_steps", _read_warmup_steps),
    Import(f"{ROLLOUT}.dtype", _read_dtype),
    Import("trainer.logger", _read_loggers),
)
