"""The warm start: supervised training on demonstrations.

A demonstration is a sample whose every trained token has the advantage 1. The model is its own sampler, so the ratio of
probabilities is 1, and the policy's loss has the gradient of the cross entropy: the trainer is that of a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from astuner.protocols import Fit, RunInfo, WarmStartJob, WarmStartResult
from astuner.rendering import load_renderer
from astuner.runs.atomic import AGAIN, explain_os_errors
from astuner.schema import Sample
from astuner_local.trainer.model_io import compute_dtype, load_model, save_hf
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

WARMUP = 0.1
"""Share of the steps in which the learning rate rises."""
REPORTS = 10
"""About how many lines of progress there are."""
SMALL = 5_000_000
"""Parameters up to which one thread is as fast as several: a step is mostly overhead."""


def warm_start(run: RunInfo, job: WarmStartJob, say: Callable[[str], object]) -> WarmStartResult:
    """Train the model of a job and write it; the precision of all its weights stays that of the model."""
    disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers ships it without types
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.use_deterministic_algorithms(device == "cpu", warn_only=True)
    torch.manual_seed(job.seed)  # new adapters are drawn at random
    settings = {**run.native["model"], "weight_dtype": run.native["trainer"]["weight_dtype"]}
    model = load_model(job.model, device=device, **settings)
    if sum(parameter.numel() for parameter in model.parameters()) <= SMALL:
        torch.set_num_threads(1)
    dtype = compute_dtype(job.model, settings["dtype"])
    steps = job.epochs * len(_cut_batches(job.train, job.batch_size))
    trainer = Trainer(model, make_options(run.native["trainer"], job, total_steps=steps, dtype=dtype))
    before = _measure(trainer, job)
    say(f"before: {_describe(before)}")
    every = max(1, round(job.epochs / REPORTS))
    step = 0
    for epoch, batches in enumerate(_shuffle_epochs(job), 1):
        for batch in batches:
            step += 1
            rows = [TrainRow(sample=sample, advantage=1.0, group=sample.task_id) for sample in batch]
            trainer.update(rows, step)
        if epoch % every == 0 and epoch < job.epochs:
            say(f"epoch {epoch} of {job.epochs}: {_describe(_measure(trainer, job))}")
    after = _measure(trainer, job)
    say(f"epoch {job.epochs} of {job.epochs}: {_describe(after)}")
    if not hasattr(model, "peft_config"):
        model.to(getattr(torch, dtype))
    with explain_os_errors(Path(job.out), AGAIN):
        save_hf(model, load_renderer(str(job.model), **run.config.model.rendering).tokenizer, Path(job.out))
    return WarmStartResult(before=before, after=after, steps=step)


def make_options(native: Mapping[str, Any], job: WarmStartJob, *, total_steps: int, dtype: str) -> TrainerOptions:
    """Return the options of a run's trainer, with those of reinforcement learning off: one update, no divergence, no weights."""
    given = {
        **native,
        "lr": job.lr,
        "lr_warmup_steps": math.ceil(total_steps * WARMUP),
        "lr_scheduler_type": "linear",
        "mini_batch_num": 1,
        "rollout_is_threshold": None,
        "use_kl_loss": False,
        "loss_agg_mode": "token-mean",
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
    }
    return TrainerOptions.from_native(given, total_steps=total_steps, loss_agg_mode="token-mean", dtype=dtype)


def _shuffle_epochs(job: WarmStartJob) -> Iterator[list[list[Sample]]]:
    random = Random(job.seed)
    rows = list(job.train)
    for _ in range(job.epochs):
        random.shuffle(rows)
        yield _cut_batches(rows, job.batch_size)


def _cut_batches(rows: Sequence[Sample], size: int) -> list[list[Sample]]:
    """Cut rows into the fewest batches of at most `size`, of nearly equal sizes."""
    count = math.ceil(len(rows) / size)
    edges = [len(rows) * number // count for number in range(count + 1)]
    return [list(rows[start:end]) for start, end in pairwise(edges)]


def _measure(trainer: Trainer, job: WarmStartJob) -> dict[str, Fit]:
    parts = {"trained": job.train, "held out": job.held_out}
    return {name: trainer.measure_fit(samples) for name, samples in parts.items() if samples}


def _describe(fits: Mapping[str, Fit]) -> str:
    return ", ".join(f"{name} loss {fit.loss:.3f} accuracy {fit.accuracy:.1%}" for name, fit in fits.items())
