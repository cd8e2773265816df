"""From our keys to the options of the local trainer. Imports no torch: a run's planning reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import evolve

from astuner.settings.config.alignment import Alignment, Row
from astuner.settings.config.structure_errors import Fault, FaultsError
from astuner.settings.config.structuring import make_converter
from astuner_local.trainer.options import TrainerOptions

AT_START = {
    "total_steps": "the tasks decide",
    "dtype": "model.dtype decides",
    "policy_loss": "trainer_common.algorithm.policy_loss decides",
    "correction": "trainer_common.algorithm.rollout_is… and rollout_rs… decide",
    "entropy_coeff": "trainer_common.algorithm.entropy_ctrl decides",
}
"""Options of the trainer that are known when the run starts, with their sources."""

SAMPLERS = "rollout.{0} decides it: the trainer has to compute the distribution that was sampled from"


def _check_temperature(temperature: float) -> float:
    if temperature == 0:
        raise ValueError("0 is greedy: there is no distribution to train. Set a temperature above 0, for example 1.0.")
    return temperature


def _defaults() -> Mapping[str, Any]:
    fields: dict[str, Any] = {item.name: item.default for item in attrs.fields(TrainerOptions) if item.name not in AT_START}
    # Unless the user chooses one, the estimator's own aggregation is used.
    trainer: dict[str, Any] = {**fields, "betas": list(fields["betas"]), "loss_agg_mode": None}
    return {"trainer": trainer, "model": {"dtype": "auto", "lora_rank": 0, "lora_alpha": 16.0, "target_modules": "all-linear"}}


def _check(native: Mapping[str, Any]) -> tuple[Fault, ...]:
    trainer = {key: value for key, value in native["trainer"].items() if value is not None}
    try:
        make_converter().structure(trainer, TrainerOptions)
    except FaultsError as error:
        return tuple(evolve(fault, path=("trainer", *fault.path)) for fault in error.faults)
    return ()


ALIGNMENT = Alignment(
    root="local",
    rows=(
        Row("model.dtype", "model.dtype"),
        Row("model.lora_rank", "model.lora_rank"),
        Row("model.lora_alpha", "model.lora_alpha"),
        Row("model.target_modules", "model.target_modules"),
        Row("trainer_common.optim.lr", "trainer.lr"),
        Row("trainer_common.optim.lr_warmup_steps", "trainer.lr_warmup_steps"),
        Row("trainer_common.optim.lr_scheduler_type", "trainer.lr_scheduler_type"),
        Row("trainer_common.optim.weight_decay", "trainer.weight_decay"),
        Row("trainer_common.optim.betas", "trainer.betas"),
        Row("trainer_common.grad_clip", "trainer.grad_clip"),
        Row("trainer_common.mini_batch_num", "trainer.mini_batch_num"),
        Row("trainer_common.loss_agg_mode", "trainer.loss_agg_mode"),
        Row("trainer_common.use_kl_loss", "trainer.use_kl_loss"),
        Row("trainer_common.kl_loss_coef", "trainer.kl_loss_coef"),
        Row("trainer_common.kl_loss_type", "trainer.kl_loss_type"),
        Row("trainer_common.algorithm.kl_penalty", "trainer.kl_reward_type"),
        Row("data.max_response_length", "trainer.max_response_length"),
        Row("rollout.temperature", "trainer.temperature", value=_check_temperature),
        Row("rollout.top_p", "trainer.top_p"),
        Row("rollout.top_k", "trainer.top_k"),
    ),
    defaults=_defaults,
    frozen={
        **{f"trainer.{name}": SAMPLERS.format(name) for name in ("temperature", "top_p", "top_k")},
        **{f"trainer.{name}": reason for name, reason in AT_START.items()},
        "trainer.clip_ratio_*": "trainer_common.clip_ratio_low, clip_ratio_high and clip_ratio_c decide",
        "trainer.rollout_is_threshold": AT_START["correction"],
    },
    check=_check,
)
