"""Supervised training: which rows make a step, and what is measured when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from astuner.contract.protocols import Fit, WarmStartJob
from astuner.runs.training.supervised import count_steps, count_warmup_steps, train_on_demonstrations


@frozen
class Recorder:
    """Counts what it is given; the loss is the number of steps so far."""

    batches: list[list[Any]] = field(factory=list)

    def train_batch(self, batch: Sequence[Any], step: int) -> None:
        self.batches.append(list(batch))
        assert step == len(self.batches)

    def measure_fit(self, samples: Sequence[Any]) -> Fit:
        return Fit(loss=float(len(self.batches)), accuracy=0.5, tokens=len(samples))


def make_job(rows: int, **changes: Any) -> WarmStartJob:
    train: Any = list(range(rows))
    out = Path("out")
    job = WarmStartJob(model="m", out=out, train=train, held_out=(), epochs=3, batch_size=4, lr=1.0, seed=0)
    return evolve(job, **changes)


def record(job: WarmStartJob) -> tuple[Recorder, list[str], Any]:
    recorder, lines = Recorder(), list[str]()
    return recorder, lines, train_on_demonstrations(recorder, job, lines.append)


def test_each_epoch_has_every_row_once_in_another_order_and_batches_of_nearly_one_size() -> None:
    recorder, _, result = record(make_job(10))
    assert result.steps == count_steps(make_job(10)) == 9
    assert [len(batch) for batch in recorder.batches] == [3, 3, 4] * 3
    epochs = [list(chain.from_iterable(recorder.batches[start : start + 3])) for start in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_seed_decides_the_order() -> None:
    one, same, other = (record(make_job(10, seed=seed))[0].batches for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_trained_and_held_out_rows_are_measured_before_after_and_between_epochs() -> None:
    held_out: Any = [0, 0]
    _, lines, result = record(make_job(4, epochs=40, held_out=held_out))
    assert (result.before["trained"].loss, result.after["trained"].loss) == (0.0, 40.0)
    assert result.after["held out"].tokens == 2
    assert lines[0] == "before: trained loss 0.000 accuracy 50.0%, held out loss 0.000 accuracy 50.0%"
    assert lines[-1] == "epoch 40 of 40: trained loss 40.000 accuracy 50.0%, held out loss 40.000 accuracy 50.0%"
    assert Counter(line.partition(":")[0] for line in lines).total() == 11


def test_the_rate_rises_in_a_tenth_of_the_steps_and_in_one_at_least() -> None:
    assert [count_warmup_steps(steps) for steps in (1, 10, 11, 300)] == [1, 1, 2, 30]
