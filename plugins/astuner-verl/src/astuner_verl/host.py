"""The actor that holds the trainer: the driver makes one call after the other, and nothing happens in between."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from astuner.runs.training import KlType, divergence
from astuner_verl.loss import ENTROPY_COEFF
from astuner_verl.packed_loss import PackedLoss
from astuner_verl.rows import SCORER, STRETCH, TrainRow, choose_units, to_tensors
from astuner_verl.token_record import PassRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

STATE = "trainer"
"""The folder of a checkpoint next to the model's files."""
FIELDS = (
    *("prompts", "responses", "input_ids", "position_ids", "response_mask", "loss_mask"),
    *("temperature", "force_group_size", STRETCH),
)
"""What log-probabilities are computed from."""
DYNAMIC = (("actor", ""), ("rollout", "log_prob_"), ("ref", "log_prob_"))
"""Sections of verl's configuration, with each one's prefix of `use_dynamic_bsz`."""


@frozen(kw_only=True, eq=False)
class Update:
    """One step's rows in mini-batches, one per optimizer step."""

    mini_batches: Sequence[Sequence[TrainRow]]
    """Only rows with a gradient; an empty one makes no step."""
    rate: float
    """The learning rate."""
    entropy_coeff: float = 0.0
    """Weight of the entropy."""


class Host:
    """Ray actor. Its methods raise what verl raises."""

    def __init__(self, native: dict[str, Any], loss: PackedLoss, *, records: bool = False) -> None:
        """Take verl's complete configuration; `start` starts. `records` keeps the values of trained tokens."""
        self._native, self._loss, self._records = native, loss, records
        self._trainer: Any = None
        self._asleep = False
        self._batches: list[Any] = []
        self._rate = self._entropy_coeff = 0.0
        self._together = 1
        self._timings: dict[str, float] = {}

    def start(self) -> Any:
        """Start workers and engines, and return verl's client of the engines once all of them are up."""
        self._start(engines=True)
        from astuner_verl.client import CancellingClient

        return self._trainer.llm_server_manager.get_client(client_cls=CancellingClient)

    def _start(self, *, engines: bool) -> None:
        import verl  # noqa: F401  # its plugins come first
        from omegaconf import OmegaConf
        from verl.trainer.ppo.utils import need_critic, need_reference_policy
        from verl.utils.config import validate_config

        from astuner_verl.trainer import SteppedTrainer

        config = OmegaConf.create(self._native)
        # The driver overlaps steps: verl itself makes one after the other.
        config.trainer.v1.trainer_mode = "sync"
        OmegaConf.resolve(config)
        # Passes are laid out here, not by the fixed sizes of verl's loop.
        checked = OmegaConf.merge(config, {"actor_rollout_ref": {part: {f"{log}use_dynamic_bsz": True} for part, log in DYNAMIC}})
        validate_config(checked, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
        self._trainer = SteppedTrainer(config, engines=engines)
        self._trainer.init()
        self._asleep = True  # verl's start leaves the engines asleep
        self._trainer.actor_rollout_wg.set_weighed_loss(self._loss, self._records)

    def share_prefixes(self) -> tuple[bool, float]:
        """Compute common prefixes once, if that agrees with verl's own passes; return whether, and the relative difference."""
        found = self._trainer.actor_rollout_wg.share_prefixes()
        agree = all(one for one, _ in found)
        self._together = int(self._trainer.config.actor_rollout_ref.rollout.n) if agree else 1
        return agree, max(difference for _, difference in found)

    def add_scorer(self, path: str) -> None:
        """Load a model that scores what the trained one samples."""
        self._trainer.actor_rollout_wg.add_scorer(path)

    def serve(self, version: int) -> tuple[dict[str, float], int]:
        """Give the engines the current weights, and wake them; return the times in seconds, and the bytes sent to an engine."""
        self._sleep()
        with self._time("update_weights"):
            self._trainer.checkpoint_manager.update_weights(version)
        self._asleep = False
        return self.take_timings(), max(self._trainer.actor_rollout_wg.take_sent_bytes())

    def prepare(self, step: Update) -> int:
        """Lay out a step's rows, compute their reference values, and return the number of mini-batches to train."""
        self._sleep()
        trainer, self._rate, self._entropy_coeff = self._trainer, step.rate, step.entropy_coeff
        self._batches = [self._lay_out(rows)[0] for rows in step.mini_batches if rows]
        if len(self._batches) > 1:
            # The ratio is to the weights at the step's start.
            with self._time("old_log_prob"):
                for batch in self._batches:
                    self._add(batch, "old_log_probs", trainer.actor_rollout_wg.compute_log_prob(self._build_query(batch)))
        if trainer.use_reference_policy and self._loss.unpack().kl_loss_coef > 0:
            with self._time("ref"):
                for batch in self._batches:
                    self._add(batch, "ref_log_prob", {"log_probs": trainer.reference_logprobs(self._build_query(batch))})
        return len(self._batches)

    def train(self, number: int) -> dict[str, float]:
        """Train on one of the prepared mini-batches, and return the metrics of the loss and of verl."""
        # verl's own schedule advances after each mini-batch.
        self._trainer.actor_rollout_wg.set_learning_rate(self._rate)
        with self._time("update_actor"):
            found = self._train_batch(self._batches[number])
        if number + 1 == len(self._batches):
            self._batches = []
        return found

    def take_token_records(self) -> list[PassRecord]:
        """Return the values of the tokens that were trained since the last call; rows that several workers share, from each."""
        return [one for found in self._trainer.actor_rollout_wg.take_token_records() for one in found]

    def take_timings(self) -> dict[str, float]:
        """Return the times in seconds since the last call."""
        timings, self._timings = self._timings, {}
        return timings

    def reference_kl(self, rows: Sequence[TrainRow], kind: KlType) -> tuple[list[NDArray[np.float64]], float]:
        """Return, per row, the divergence of the policy from the reference at each trained token, and the sum of k3.

        Both are computed by the trainer, so that the rounding of the sampler is no part of it.
        """
        self._sleep()
        batch, order = self._lay_out(rows)
        with self._time("ref"):
            references = self._trainer.reference_logprobs(self._build_query(batch))
        with self._time("old_log_prob"):
            own = self._trainer.actor_rollout_wg.compute_log_prob(self._build_query(batch))["log_probs"].float()
        found, k3 = [], 0.0
        for policy, reference in zip(_select_trained(rows, order, own), _select_trained(rows, order, references), strict=True):
            found.append(divergence(policy, reference, kind).double().numpy())
            k3 += float(divergence(policy, reference, "low_var_kl").double().sum())
        return found, k3

    def score_with(self, path: str, rows: Sequence[TrainRow]) -> list[NDArray[np.float64]]:
        """Return, per row, the log-probability of each trained token by a model that was added."""
        from verl.utils import tensordict_utils as tu

        self._sleep()
        # Such a model computes each row whole.
        batch, order = self._lay_out(rows, together=1)
        query = self._build_query(batch)
        tu.assign_non_tensor(query, **{SCORER: path})
        with self._time("score"):
            scores = self._trainer.actor_rollout_wg.score_with(query)["log_probs"].float()
        return [one.double().numpy() for one in _select_trained(rows, order, scores)]

    def save(self, directory: str, base: str) -> None:
        """Write a checkpoint: the model for other tools, and the trainer's state; `base` is the model under adapters."""
        group, home = self._trainer.actor_rollout_wg, Path(directory)
        state = home / STATE
        # Gathering whole tensors needs the memory of the engines.
        with nullcontext() if self._asleep else self._trainer.rest_engines():
            group.save_checkpoint(str(state), None, 0)
            written = state / "huggingface"
            if self._trainer.ref_in_actor:
                group.save_adapter(str(home), base)
            else:
                for file in written.iterdir():
                    shutil.move(file, home / file.name)
            shutil.rmtree(written, ignore_errors=True)

    def restore(self, directory: str) -> None:
        """Continue from what `save` wrote."""
        self._trainer.actor_rollout_wg.load_checkpoint(local_path=str(Path(directory) / STATE), del_local_after_load=False)

    def _sleep(self) -> None:
        """Give the memory of the engines to the trainer."""
        if not self._asleep:
            self._trainer.checkpoint_manager.sleep_replicas()
            self._asleep = True

    def _lay_out(self, rows: Sequence[TrainRow], *, together: int | None = None) -> tuple[Any, list[int | None]]:
        """Return rows as verl's workers take them, and their order; `together` is as many neighbours as may share a pass."""
        config = self._trainer.config.actor_rollout_ref
        limit = min(config.actor.ppo_max_token_len_per_gpu, config.rollout.log_prob_max_token_len_per_gpu)
        most = together or self._together
        together, order, stretch = choose_units(rows, self._trainer.data_parallel_size(), most=most, limit=int(limit))
        settings = {"temperature": float(config.rollout.temperature), "global_batch_size": len(order)}
        return to_tensors(rows, order, force_group_size=together, **{STRETCH: stretch}, **settings), order

    def _build_query(self, batch: Any) -> Any:
        """Return the fields needed for log-probabilities."""
        from verl.utils import tensordict_utils as tu

        sent = batch.select(*FIELDS)
        tu.assign_non_tensor(sent, calculate_entropy=False, compute_loss=False)
        return sent

    def _add(self, batch: Any, name: str, found: Any) -> None:
        """Add the answers' part of whole rows' log-probabilities to a batch."""
        from verl.workers.utils.padding import response_from_nested

        batch[name] = response_from_nested(found["log_probs"].float(), batch["response_mask"])

    def _train_batch(self, batch: Any) -> dict[str, float]:
        from verl.utils import tensordict_utils as tu
        from verl.utils.metric import reduce_metrics

        size, entropy = len(batch), bool(self._trainer.config.actor_rollout_ref.actor.calculate_entropy)
        weight = {ENTROPY_COEFF: self._entropy_coeff}
        tu.assign_non_tensor(
            batch,
            calculate_entropy=entropy,
            mini_batch_size=size,
            epochs=1,
            seed=0,
            dataloader_kwargs={"shuffle": False},
            **weight,
        )
        found = self._trainer.actor_rollout_wg.update_actor(batch)
        return {name: float(value) for name, value in reduce_metrics(tu.get(found, "metrics")).items()}

    @contextmanager
    def _time(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._timings[name] = self._timings.get(name, 0.0) + time.perf_counter() - began


def _select_trained(rows: Sequence[TrainRow], order: Sequence[int | None], values: Any) -> list[Any]:
    """Return, per row, the values of its trained tokens; given are those of whole rows in another order, with padding."""
    import torch

    found: list[Any] = [None] * len(rows)
    for place, full in zip(order, values.unbind(), strict=True):
        if place is not None:
            found[place] = full[rows[place].start - 1 : -1][torch.tensor(rows[place].mask)]
    return found
