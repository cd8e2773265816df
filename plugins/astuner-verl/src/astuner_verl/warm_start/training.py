"""The warm start as the driver sees it: plain calls to the trainer, each watched."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from astuner.contract.errors import UsageError
from astuner.contract.protocols import MOST_MISSES, Fit, RunInfo, WarmStartJob, WarmStartResult
from astuner.contract.schema import Sample
from astuner.episodes.judging.advantages import WeightedSample
from astuner.model.rendering import load_renderer
from astuner.runs.training import (
    LossOptions,
    check_whole_model,
    compute_learning_rate,
    compute_token_shares,
    export_model,
    read_dtype,
)
from astuner.runs.training.supervised import SCHEDULE, count_steps, count_warmup_steps, train_on_demonstrations
from astuner.shared.processes import gpu_count
from astuner.shared.services.ray import ADDRESS
from astuner.shared.services.running import ServiceHost
from astuner_verl.cluster import attach, check_address, check_room, check_versions
from astuner_verl.host import Update
from astuner_verl.native_configuration import Machine
from astuner_verl.packed_loss import PackedLoss
from astuner_verl.rows import train_row
from astuner_verl.trainer_start import STARTING, describe_workers, make_host, share_prefixes
from astuner_verl.warm_start.host import WarmStartHost
from astuner_verl.warm_start.native_configuration import check_native, resolve_warm_start
from astuner_verl.watch import Watch

MEASURED = 256
"""Rows that are measured in one call, so that a long call is not taken for a trainer that hangs."""


def check_warm_start(run: RunInfo, job: WarmStartJob) -> None:
    """Raise what can be known before Ray starts: `UsageError`, or `ConfigError`."""
    check_versions()
    check_address()
    check_whole_model(str(job.model), "the backbone 'verl'")
    check_native(run.native)
    if not os.environ.get(ADDRESS):
        gpus = gpu_count()
        resolve_warm_start(run, job, Machine.here("cuda" if gpus else "cpu", gpus))


def warm_start(run: RunInfo, job: WarmStartJob, say: Callable[[str], object]) -> WarmStartResult:
    """Train the model of a job on a cluster, and write it once Ray has ended."""
    from transformers.utils.logging import disable_progress_bar

    check_warm_start(run, job)
    disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers ships it without types
    tokenizer = load_renderer(str(job.model), **run.config.model.rendering).tokenizer
    trained = run.directory / "trained"
    trained.mkdir()

    def report(text: str) -> None:
        say(text)

    place = ServiceHost(directory=run.directory, say=report, warn=report, stopped=lambda: False)
    with attach(run, place) as cluster:
        native = resolve_warm_start(run, job, Machine.here(cluster.device, cluster.gpus_per_node))
        check_room(native, cluster.device)
        watch = Watch(logs=cluster.logs, resumable=False)
        # Each ratio is 1, so that nothing is clipped.
        host = make_host(WarmStartHost, native, PackedLoss.of(LossOptions()))
        say(f"{describe_workers(native, cluster.device)}; {STARTING}")
        watch.get(host.start.remote(), "starting the trainer", report)
        if native["astuner"]["share_prefixes"]:
            share_prefixes(host, watch, say)
        result = train_on_demonstrations(_Trainer(host=host, watch=watch, job=job, total_steps=count_steps(job)), job, say)
        base = str(Path(job.model).resolve()) if Path(job.model).exists() else str(job.model)
        watch.get(host.write_model.remote(str(trained), base), "writing the model")
    if not any(trained.glob("*.safetensors")):
        raise UsageError(f"{trained}: the trainer wrote its model where this machine does not see it; --out must be shared")
    adapters = run.config.model.lora_rank > 0
    export_model(trained, job.out, dtype=None if adapters else _choose_dtype(run, job))
    tokenizer.save_pretrained(job.out)
    return evolve(result, merge_first=adapters)


@frozen(kw_only=True, eq=False)
class _Trainer:
    host: Any
    watch: Watch
    job: WarmStartJob
    total_steps: int

    def train_batch(self, batch: Sequence[Sample], step: int) -> None:
        rate = compute_learning_rate(
            step,
            lr=self.job.lr,
            warmup_steps=count_warmup_steps(self.total_steps),
            schedule=SCHEDULE,
            total_steps=self.total_steps,
        )
        weighted = [WeightedSample(sample=sample, advantage=1.0, group=sample.task_id) for sample in batch]
        shares = compute_token_shares(weighted, "token-mean", 1)
        rows = [train_row(row.sample, row.spread(), share) for row, share in zip(weighted, shares, strict=True)]
        self.watch.get(self.host.prepare.remote(Update(mini_batches=[rows], rate=rate)), f"preparing step {step}")
        self.watch.get(self.host.train.remote(0), f"training step {step}")

    def measure_fit(self, samples: Sequence[Sample]) -> Fit:
        parts = [samples[start : start + MEASURED] for start in range(0, len(samples), MEASURED)]
        fits = [self.watch.get(self.host.measure_fit.remote([train_row(one) for one in part]), "measuring") for part in parts]
        tokens = sum(fit.tokens for fit in fits)
        misses = [evolve(miss, sample=part * MEASURED + miss.sample) for part, fit in enumerate(fits) for miss in fit.misses]
        return Fit(
            loss=sum(fit.loss * fit.tokens for fit in fits) / tokens,
            accuracy=sum(fit.accuracy * fit.tokens for fit in fits) / tokens,
            tokens=tokens,
            misses=tuple(misses[:MOST_MISSES]),
        )


def _choose_dtype(run: RunInfo, job: WarmStartJob) -> str:
    """Return the precision to write: that of `model.dtype`, or else of the first model, with bfloat16 for float16."""
    if run.config.model.dtype != "auto":
        return run.config.model.dtype
    return "bfloat16" if read_dtype(job.model) in ("bfloat16", "float16") else "float32"
