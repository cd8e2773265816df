"""Imported by each of verl's workers (`model.external_lib`).

Each of our steps is one optimizer step, with its own rate, its tokens are recorded, and padding counts in the size of its
passes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from verl.utils import tensordict_utils as tu
from verl.workers.engine import utils as passes
from verl.workers.engine_workers import TrainingWorker

from astuner.shared.processes import keep_stores_here
from astuner_trinity.rows import IDLE, RATE, SHARE, STEP
from astuner_trinity.trainer.loss import record_tokens
from astuner_trinity.trainer.padding import provide_padding, wrap_splitter


def wrap_training(train_mini_batch: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap a worker's training method: all rows of our step, whatever their number, make one mini-batch.

    verl cuts by `ppo_mini_batch_size`, which Trinity sets to `buffer.train_batch_size`, and refuses any other number of rows.
    """

    @functools.wraps(train_mini_batch)
    def train(self: Any, data: Any) -> Any:
        if SHARE not in data.keys():  # noqa: SIM118  # a TensorDict is no mapping
            return train_mini_batch(self, data)
        tu.assign_non_tensor(data, mini_batch_size=len(data) * self.engine.get_data_parallel_size())
        for group in self.engine.optimizer.param_groups:
            group["lr"] = float(data[RATE][0])
        # Workers that share sequences compute the same: one of them records it.
        records = self.engine.is_mp_src_rank_with_outputs()
        with (
            _skip_update(self.engine) if bool(data[IDLE][0] > 0) else nullcontext(),
            record_tokens(self.loss_fn, step=int(data[STEP][0]), worker=self.engine.get_data_parallel_rank())
            if records
            else nullcontext(),
        ):
            return train_mini_batch(self, data)

    return train


@contextmanager
def _skip_update(engine: Any) -> Iterator[None]:
    """Skip a step without touching the weights: Adam's moments would move them."""
    engine.optimizer_step = lambda: 0.0
    try:
        yield
    finally:
        del engine.optimizer_step


keep_stores_here()
provide_padding()
passes.rearrange_micro_batches = wrap_splitter(passes.rearrange_micro_batches)
TrainingWorker.train_mini_batch = wrap_training(TrainingWorker.train_mini_batch)
