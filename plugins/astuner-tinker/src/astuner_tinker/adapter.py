"""Trains the adapters of one target on the server: our loss, in as few calls as it takes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray
from torch import Tensor

from astuner.contract.protocols import RunInfo, TrainedTokens
from astuner.contract.schema import Sample
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.training import (
    Aggregation,
    LossOptions,
    PpoClip,
    TokenStreams,
    TokenTerms,
    compute_learning_rate,
    compute_token_shares,
    cut_mini_batches,
    stack_token_values,
    token_terms,
)
from astuner.runs.training.signal import compute_signal_metrics, compute_update_metrics, select_live_rows
from astuner.runs.training.token_values import STACKED, TokenValues, join_passes
from astuner_tinker.probe import ServerFacts
from astuner_tinker.rows import make_scoring_data, make_training_data, read_logprobs
from astuner_tinker.service import Service
from astuner_tinker.spending import Ledger

EPS = 1e-8
"""AdamW's, as in the other backbones."""
LEAST_RATE = 1e-30
"""A server may refuse 0."""

Logprobs = list[NDArray[np.float32]]


@frozen(kw_only=True, eq=False)
class Batch:
    """The rows of one optimizer step that have a gradient, and of their trained tokens: tensors [tokens]."""

    samples: Sequence[Sample]
    numbers: Sequence[int]
    """Which rows of the step these are."""
    shares: Tensor
    """Factors of the losses."""
    advantages: Tensor
    sampler: Tensor
    owners: Tensor
    """The row of each."""
    streams: TokenStreams | None

    def split(self, values: Tensor) -> list[NDArray[np.float64]]:
        """Return values of the tokens row by row."""
        return np.split(values.double().numpy(), np.cumsum([sample.trained for sample in self.samples])[:-1])


@define(eq=False, kw_only=True)
class AdapterTrainer:
    """The LoRA adapters of one target, and their optimizer, on the server."""

    client: Any
    """`tinker.TrainingClient`"""
    service: Service
    facts: ServerFacts
    ledger: Ledger
    run: RunInfo
    loss: LossOptions
    aggregation: Aggregation
    total_steps: int
    score_reference: Any
    """From samples to their log-probabilities under the model without adapters."""
    step: int = 0
    _values: TokenValues | None = field(default=None, init=False)

    @property
    def uses_server_loss(self) -> bool:
        """Whether the server's loss is ours: then a step is one call for the gradient, and no forward pass before it."""
        common, options = self.run.config.trainer_common, self.service.options
        plain = type(self.loss.policy_loss) is PpoClip and not self.loss.kl_loss_coef
        plain = plain and self.loss.correction.rollout_is_threshold is None and self.loss.correction.rollout_rs is None
        chosen = options.loss == "importance_sampling" or "trainer_common.clip_ratio_c" not in self.run.user_keys
        return options.loss != "computed" and plain and chosen and common.mini_batch_num == 1

    def score(self, samples: Sequence[Sample], client: Any = None) -> Logprobs:
        """Return, per sample, the log-probability of each of its trained tokens under the current weights."""
        chosen = client or self.client
        calls = make_scoring_data(samples)

        def work() -> list[Any]:
            asked = [chosen.forward(data, "cross_entropy") for data in calls]
            return [one.result() for one in asked]

        answers = self.service.ask(work, "a forward pass")
        self.ledger.add(prefill=sum(len(sample.ids) for sample in samples))
        return read_logprobs(answers, samples)

    def update(self, rows: Sequence[WeightedSample], step: int, *, record: bool) -> dict[str, float]:
        """Train on the rows of a step (from 1), with one optimizer step per mini-batch that has signal; return metrics."""
        common = self.run.config.trainer_common
        parts = cut_mini_batches(rows, common.mini_batch_num)
        live = [select_live_rows(part, every_row=self.loss.kl_loss_coef > 0) for part in parts]
        numbers = {id(row): number for number, row in enumerate(rows)}
        batches = [self._make_batch(part, own, numbers) for part, own in zip(parts, live, strict=True) if own]
        on_server = self.uses_server_loss and not any(row.others for row in rows)
        old = None if on_server else [_join(self.score(batch.samples)) for batch in batches]
        lr = compute_learning_rate(
            step,
            lr=common.optim.lr,
            warmup_steps=common.optim.lr_warmup_steps,
            schedule=common.optim.lr_scheduler_type,
            total_steps=self.total_steps,
        )
        sums: defaultdict[str, float] = defaultdict(float)
        norms: list[float | None] = []
        passes = []
        for place, batch in enumerate(batches):
            if old is None:
                now, terms, norm = self._train_by_server(batch, lr)
            else:
                now = old[0] if place == 0 else _join(self.score(batch.samples))
                terms, norm = self._train_computed(batch, now, old[place], lr)
            norms.append(norm)
            for name, values in {"tokens": torch.ones_like(now), **terms.measured}.items():
                sums[name] += float(values.double().sum())
            sums["abs_max"] = max(sums["abs_max"], float(terms.drift.abs().max()))
            stack = stack_token_values(now, terms, None).numpy()
            if old is None:
                stack[STACKED.index("ratios")] = 1.0  # to the weights that the step began with
            passes.append((batch.numbers, TokenValues.from_stack(stack, [sample.trained for sample in batch.samples])))
        self.step = step
        self._values = join_passes(passes, len(rows)) if record else None
        known = [norm for norm in norms if norm is not None]
        return {
            **compute_signal_metrics(rows, list(chain.from_iterable(live)), [0.0 if norm is None else norm for norm in norms]),
            **compute_update_metrics(sums, known, len(parts)),
            **({"kl/mean": sums["kl"] / sums["tokens"]} if self.loss.kl_loss_coef and sums["tokens"] else {}),
            "lr": lr,
        }

    def take_token_values(self) -> TokenValues | None:
        """Return the values of the rows of the last update, once."""
        taken, self._values = self._values, None
        return taken

    def _make_batch(self, part: Sequence[WeightedSample], live: Sequence[WeightedSample], numbers: dict[int, int]) -> Batch:
        counted = compute_token_shares(part, self.aggregation, self.run.config.data.max_response_length)
        shares = dict(zip(map(id, part), counted, strict=True))
        trained = np.array([row.sample.trained for row in live])

        def join_stream(name: str) -> Tensor:
            return _join([row.others.get(name, np.zeros(row.sample.trained)) for row in live])

        names = ("likelihood", "divergence", "reference")
        return Batch(
            samples=[row.sample for row in live],
            numbers=[numbers[id(row)] for row in live],
            shares=_join([np.repeat([shares[id(row)] for row in live], trained)]),
            advantages=_join([row.spread() for row in live]),
            sampler=_join([row.sample.logprobs[row.sample.mask] for row in live]),
            owners=torch.from_numpy(np.repeat(np.arange(len(live)), trained)),
            streams=TokenStreams(**{name: join_stream(name) for name in names}) if any(row.others for row in live) else None,
        )

    def _train_by_server(self, batch: Batch, lr: float) -> tuple[Tensor, TokenTerms, float | None]:
        """Let the server compute the loss, whose ratio is that to the sampler."""
        common = self.run.config.trainer_common
        low, high, name = common.clip_ratio_low, common.clip_ratio_high, "ppo"
        if self.service.options.loss == "importance_sampling":
            low, high, name = 1.0, math.inf, "importance_sampling"
        bounds = {"clip_low_threshold": 1 - low, "clip_high_threshold": 1 + high} if name == "ppo" else None
        now, norm = self._make_step(batch, batch.sampler, batch.advantages * batch.shares, lr, name, bounds)
        # The server has no dual clip, and importance sampling none at all.
        clip = PpoClip(clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=math.inf)
        return now, self._compute_terms(batch, now, batch.sampler, evolve(self.loss, policy_loss=clip), trainer=now), norm

    def _train_computed(self, batch: Batch, now: Tensor, old: Tensor, lr: float) -> tuple[TokenTerms, float | None]:
        """Compute the loss here, and send its gradient: at a ratio of 1 importance sampling has the gradient -A·∇log π."""
        terms = self._compute_terms(batch, now, old, self.loss)
        return terms, self._make_step(batch, now, -terms.slope, lr, "importance_sampling")[1]

    def _compute_terms(
        self, batch: Batch, now: Tensor, old: Tensor, loss: LossOptions, trainer: Tensor | None = None
    ) -> TokenTerms:
        tokens = TrainedTokens(logp=now, old=old, sampler=batch.sampler, advantages=batch.advantages, samples=batch.owners)
        reference = _join(self.score_reference(batch.samples)) if self.loss.kl_loss_coef else None
        return token_terms(tokens, shares=batch.shares, options=loss, reference=reference, trainer=trainer, streams=batch.streams)

    def _make_step(
        self, batch: Batch, old: Tensor, weights: Tensor, lr: float, loss: str, bounds: dict[str, float] | None = None
    ) -> tuple[Tensor, float | None]:
        """Ask for gradient and optimizer step together; return log π before it, and the gradient's norm if there is one."""
        from tinker import types

        common = self.run.config.trainer_common
        data = make_training_data(batch.samples, batch.split(old), batch.split(weights), self.facts)
        adam = types.AdamParams(
            learning_rate=max(lr, LEAST_RATE),
            beta1=common.optim.betas[0],
            beta2=common.optim.betas[1],
            eps=EPS,
            weight_decay=common.optim.weight_decay,
            grad_clip_norm=common.grad_clip,
        )

        def work() -> tuple[list[Any], Any]:
            passes = [self.client.forward_backward(call, loss, bounds) for call in data]
            stepping = self.client.optim_step(adam)
            return [one.result() for one in passes], stepping.result()

        answers, stepped = self.service.ask(work, "a training step")
        self.ledger.add(train=sum(len(sample.ids) for sample in batch.samples))
        told = [value for name, value in (stepped.metrics or {}).items() if "norm" in name]
        return _join(read_logprobs(answers, batch.samples)), float(told[0]) if told else None


def _join(values: Sequence[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.concatenate(values).astype(np.float32))
