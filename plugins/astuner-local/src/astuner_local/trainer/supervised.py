"""The warm start on one machine: demonstrations are trained by the trainer of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from transformers.utils.logging import disable_progress_bar

from astuner.contract.protocols import Fit, RunInfo, WarmStartJob, WarmStartResult
from astuner.contract.schema import Sample
from astuner.model.rendering import load_renderer
from astuner.runs.store.atomic import explain_os_errors
from astuner.runs.training.supervised import SCHEDULE, count_steps, count_warmup_steps, train_on_demonstrations
from astuner_local.device import choose_device, read_device
from astuner_local.trainer.model_io import compute_dtype, load_model, save_hf
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

SMALL = 5_000_000
"""Parameters up to which one thread is as fast as several: a step is mostly overhead."""


def warm_start(run: RunInfo, job: WarmStartJob, say: Callable[[str], object]) -> WarmStartResult:
    """Train the model of a job and write it; the precision of all its weights stays that of the model."""
    disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers ships it without types
    device = choose_device(read_device(run))
    torch.use_deterministic_algorithms(device == "cpu", warn_only=True)
    torch.manual_seed(job.seed)  # new adapters are drawn at random
    settings = {**run.native["model"], "weight_dtype": run.native["trainer"]["weight_dtype"]}
    model = load_model(job.model, device=device, **settings)
    if sum(parameter.numel() for parameter in model.parameters()) <= SMALL:
        torch.set_num_threads(1)
    dtype = compute_dtype(job.model, settings["dtype"])
    trainer = Trainer(model, make_options(run.native["trainer"], job, total_steps=count_steps(job), dtype=dtype))
    result = train_on_demonstrations(_TrainerOfRows(trainer), job, say)
    if not hasattr(model, "peft_config"):
        model.to(getattr(torch, dtype))
    with explain_os_errors(Path(job.out), of_run=False):
        save_hf(model, load_renderer(str(job.model), **run.config.model.rendering).tokenizer, Path(job.out))
    return result


@frozen
class _TrainerOfRows:
    trainer: Trainer

    def train_batch(self, batch: Sequence[Sample], step: int) -> None:
        rows = [TrainRow(sample=sample, advantage=1.0, group=sample.task_id) for sample in batch]
        self.trainer.update(rows, step)

    def measure_fit(self, samples: Sequence[Sample]) -> Fit:
        return self.trainer.measure_fit(samples)


def make_options(native: Mapping[str, Any], job: WarmStartJob, *, total_steps: int, dtype: str) -> TrainerOptions:
    """Return the options of a run's trainer, with those of reinforcement learning off: one update, no divergence, no weights."""
    given = {
        **native,
        "lr": job.lr,
        "lr_warmup_steps": count_warmup_steps(total_steps),
        "lr_scheduler_type": SCHEDULE,
        "mini_batch_num": 1,
        "use_kl_loss": False,
        "loss_agg_mode": "token-mean",
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
    }
    return TrainerOptions.from_native(given, total_steps=total_steps, loss_agg_mode="token-mean", dtype=dtype)
