"""Supervised training on demonstrations, alike on every backbone: which rows make a step, at what rate, and what is measured.

A demonstration is a sample whose every trained token has the advantage 1. The model is its own sampler, so the ratio of
probabilities is 1, and the loss of a run (`astuner.runs.training.losses`) has the gradient of the cross entropy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from random import Random
from typing import Any, Protocol

from astuner.contract.protocols import MOST_MISSES, Fit, Miss, WarmStartJob, WarmStartResult
from astuner.contract.schema import Sample

WARMUP = 0.1
"""Share of the steps in which the learning rate rises."""
SCHEDULE = "linear"
"""How it falls afterwards."""
REPORTS = 10
"""About how many lines of progress there are."""


class SupervisedTrainer(Protocol):
    """What a backbone brings: one step, and one measurement."""

    def train_batch(self, batch: Sequence[Sample], step: int) -> object:
        """Make one optimizer step (from 1) with the mean loss of the trained tokens of all rows."""

    def measure_fit(self, samples: Sequence[Sample]) -> Fit:
        """Return how well the current weights predict the trained tokens."""


def train_on_demonstrations(trainer: SupervisedTrainer, job: WarmStartJob, say: Callable[[str], object]) -> WarmStartResult:
    """Train all epochs of a job, and measure before and after; `say` shows lines of progress."""
    before = _measure(trainer, job)
    say(f"before: {_describe(before)}")
    every = max(1, round(job.epochs / REPORTS))
    step = 0
    for epoch, batches in enumerate(_shuffle_epochs(job), 1):
        for batch in batches:
            step += 1
            trainer.train_batch(batch, step)
        if epoch % every == 0 and epoch < job.epochs:
            say(f"epoch {epoch} of {job.epochs}: {_describe(_measure(trainer, job))}")
    after = _measure(trainer, job)
    say(f"epoch {job.epochs} of {job.epochs}: {_describe(after)}")
    return WarmStartResult(before=before, after=after, steps=step)


def find_misses(ids: Sequence[Any], places: Sequence[Any], chosen: Sequence[Any]) -> tuple[Miss, ...]:
    """Return where the first choice is wrong, given by sample: its `ids`, `places` of the trained ones, ids `chosen` there."""
    found = (
        Miss(sample, int(place), int(first))
        for sample, (own, places_of, chosen_of) in enumerate(zip(ids, places, chosen, strict=True))
        for place, first in zip(places_of, chosen_of, strict=True)
        if own[place] != first
    )
    return tuple(islice(found, MOST_MISSES))


def count_steps(job: WarmStartJob) -> int:
    """Return the optimizer steps of a job."""
    return job.epochs * len(_cut_batches(job.train, job.batch_size))


def count_warmup_steps(total_steps: int) -> int:
    """Return the steps in which the learning rate rises."""
    return math.ceil(total_steps * WARMUP)


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


def _measure(trainer: SupervisedTrainer, job: WarmStartJob) -> dict[str, Fit]:
    parts = {"trained": job.train, "held out": job.held_out}
    return {name: trainer.measure_fit(samples) for name, samples in parts.items() if samples}


def _describe(fits: Mapping[str, Fit]) -> str:
    return ", ".join(f"{name} loss {fit.loss:.3f} accuracy {fit.accuracy:.1%}" for name, fit in fits.items())
