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

from astuner.contract.protocols import RunInfo, TrainedTokens
from astuner.contract.schema import Sample
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.training import (
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
from astuner.runs.training.minibatches import Aggregation
from astuner.runs.training.signal import compute_signal_metrics, compute_update_metrics, select_live_rows
from astuner.runs.training.token_values import STACKED, TokenValues, join_passes
from astuner_tinker.probe import ServerFacts
from astuner_tinker.rows import Row, make_scoring_data, make_training_data, read_logprobs
from astuner_tinker.service import Service
from astuner_tinker.spending import Ledger

EPS = 1e-8
"""AdamW's, as in the other backbones."""

Logprobs = list[NDArray[np.float32]]


@frozen(kw_only=True, eq=False)
class Batch:
    """The rows of one optimizer step that have a gradient."""

    rows: Sequence[WeightedSample]
    numbers: Sequence[int]
    """Which rows of the step these are."""
    shares: torch.Tensor
    """[tokens] factors of the tokens' losses"""
    advantages: torch.Tensor
    sampler: torch.Tensor
    owners: torch.Tensor
    """[tokens] the row of each token"""
    streams: TokenStreams | None

    @property
    def samples(self) -> list[Sample]:
        """Of the rows."""
        return [row.sample for row in self.rows]

    def split(self, values: torch.Tensor) -> list[NDArray[np.float64]]:
        """Return values of the tokens row by row."""
        ends = np.cumsum([row.sample.trained for row in self.rows])
        return np.split(values.double().numpy(), ends[:-1])


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
            passes.append((batch.numbers, TokenValues.from_stack(stack, [row.sample.trained for row in batch.rows])))
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
        streams = None
        if any(row.others for row in live):
            joined = {
                name: torch.from_numpy(
                    np.concatenate([row.others.get(name, np.zeros(row.sample.trained)) for row in live])
                ).float()
                for name in ("likelihood", "divergence", "reference")
            }
            streams = TokenStreams(**joined)
        return Batch(
            rows=live,
            numbers=[numbers[id(row)] for row in live],
            shares=torch.from_numpy(np.repeat([shares[id(row)] for row in live], trained)).float(),
            advantages=torch.from_numpy(np.concatenate([row.spread() for row in live])).float(),
            sampler=torch.from_numpy(np.concatenate([row.sample.logprobs[row.sample.mask] for row in live])).float(),
            owners=torch.from_numpy(np.repeat(np.arange(len(live)), trained)),
            streams=streams,
        )

    def _train_by_server(self, batch: Batch, lr: float) -> tuple[torch.Tensor, TokenTerms, float | None]:
        """Let the server compute the loss, whose ratio is that to the sampler."""
        common, plain = self.run.config.trainer_common, self.service.options.loss == "importance_sampling"
        bounds = {"clip_low_threshold": 1 - common.clip_ratio_low, "clip_high_threshold": 1 + common.clip_ratio_high}
        weights = batch.split(batch.advantages * batch.shares)
        answers, norm = self._make_step(batch, batch.split(batch.sampler), weights, lr, *(() if plain else ("ppo", bounds)))
        now = _join(read_logprobs(answers, batch.samples))
        # The server has no dual clip, and importance sampling none at all.
        low, high = (1.0, math.inf) if plain else (common.clip_ratio_low, common.clip_ratio_high)
        clip = PpoClip(clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=math.inf)
        return now, self._compute_terms(batch, now, batch.sampler, evolve(self.loss, policy_loss=clip), trainer=now), norm

    def _train_computed(self, batch: Batch, now: torch.Tensor, old: torch.Tensor, lr: float) -> tuple[TokenTerms, float | None]:
        """Compute the loss here, and send its gradient: at a ratio of 1 importance sampling has the gradient -A·∇log π."""
        terms = self._compute_terms(batch, now, old, self.loss)
        _, norm = self._make_step(batch, batch.split(now), batch.split(-terms.slope), lr)
        return terms, norm

    def _compute_terms(
        self, batch: Batch, now: torch.Tensor, old: torch.Tensor, loss: LossOptions, trainer: torch.Tensor | None = None
    ) -> TokenTerms:
        tokens = TrainedTokens(logp=now, old=old, sampler=batch.sampler, advantages=batch.advantages, samples=batch.owners)
        reference = _join(self.score_reference(batch.samples)) if self.loss.kl_loss_coef else None
        return token_terms(tokens, shares=batch.shares, options=loss, reference=reference, trainer=trainer, streams=batch.streams)

    def _make_step(
        self,
        batch: Batch,
        old: Sequence[NDArray[np.float64]],
        advantages: Sequence[NDArray[np.float64]],
        lr: float,
        loss: str = "importance_sampling",
        bounds: dict[str, float] | None = None,
    ) -> tuple[list[Any], float | None]:
        """Ask for gradient and optimizer step together, and return the answers to the passes, and the gradient's norm if told."""
        from tinker import types

        common = self.run.config.trainer_common
        rows = [
            Row(sample=sample, logprobs=logprobs.astype(np.float32), advantages=values)
            for sample, logprobs, values in zip(batch.samples, old, advantages, strict=True)
        ]
        data = make_training_data(rows, self.facts)
        beta1, beta2 = common.optim.betas
        adam = types.AdamParams(
            learning_rate=lr,
            beta1=beta1,
            beta2=beta2,
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
        return answers, float(told[0]) if told else None


def _join(values: Sequence[NDArray[Any]]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(values).astype(np.float32))
