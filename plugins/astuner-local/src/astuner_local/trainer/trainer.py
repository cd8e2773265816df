"""The trainer of one model: updates, divergences, and its part of checkpoints."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import evolve
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from astuner.contract.protocols import Fit
from astuner.contract.schema import Sample, Sampling
from astuner.runs.training import compute_learning_rate, compute_token_shares, cut_mini_batches, divergence
from astuner.runs.training.signal import compute_signal_metrics, compute_update_metrics, select_live_rows
from astuner.runs.training.supervised import find_misses
from astuner.runs.training.token_values import TokenValues
from astuner_local.forward.choose import make_forward
from astuner_local.forward.families import unwrap_causal_lm
from astuner_local.trainer.fit import measure_fit
from astuner_local.trainer.memory import measure_limit
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.reference import Reference
from astuner_local.trainer.rounded_adamw import RoundedAdamW
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.state import load_state, save_state
from astuner_local.trainer.step import MicroBatch, accumulate, logprobs, prepare
from astuner_local.trainer.token_record import TokenRecord
from astuner_local.trainer.update_size import UpdateSize


class Trainer:
    """Turns rows into updates of a model's weights. The same rows and weights give the same bits."""

    def __init__(
        self, model: nn.Module, options: TrainerOptions, *, reference: nn.Module | Mapping[str, Tensor] | None = None
    ) -> None:
        """Take a module whose trainable parameters have the dtype of the options, peft-wrapped or not.

        The divergence is measured from `reference`: a frozen model, or values of the adapters of this one. By default it is
        measured from the model with its adapters off, or, with a divergence in the loss, from a copy of the model now. A
        continued run therefore passes what it began with.
        """
        self.model = model.eval()  # dropout would make the ratio to the sampler noise
        self.options = options
        self.entropy_coeff = options.entropy_coeff
        """What the entropy counts in the next update."""
        self.step = 0
        """The last step that `update` was called for."""
        self.parameters: Mapping[str, nn.Parameter] = {name: p for name, p in model.named_parameters() if p.requires_grad}
        for name, parameter in self.parameters.items():
            if parameter.dtype != getattr(torch, options.weight_dtype):
                wanted_dtype = f"trained parameters must be {options.weight_dtype} (see model_io.load_model)"
                raise ValueError(f"{name} is {parameter.dtype}: {wanted_dtype}")
        if not self.parameters:
            raise ValueError("no parameter of the model requires a gradient: there is nothing to train")
        self._device = next(iter(self.parameters.values())).device
        affordable = measure_limit(unwrap_causal_lm(model).config, self._device)
        self._limit = evolve(affordable, tokens=options.micro_batch_tokens or affordable.tokens)
        self._recompute_above: int = {None: affordable.tokens, True: 0, False: sys.maxsize}[options.recompute_activations]
        dtype: torch.dtype = getattr(torch, options.dtype)
        self._forward = make_forward(model, trainable=True, dtype=dtype)
        wanted = options.use_kl_loss or reference is not None or hasattr(model, "disable_adapter")
        self._reference = Reference(model, self._forward, reference, dtype) if wanted else None
        self._scorers: dict[str, Reference] = {}
        self._reward_kl: float | None = None
        self._token_values: TokenValues | None = None
        self._optimizer = _make_optimizer(self.parameters.values(), options)

    @torch.enable_grad()
    def update(self, rows: Sequence[TrainRow], step: int, *, record: bool = False) -> dict[str, float]:
        """Train on all rows of a step (from 1), with one optimizer step per mini-batch that has signal.

        Returns metrics under flat names: `loss/…`, `mismatch/…`, `clip/…`, `kl/mean`, `entropy/mean`, `grad/norm`,
        `update/relative`, `tokens/…` and the fate of the rows as `signal/…`; means are over the trained tokens. A step with
        nothing to train has counts only.
        `record` keeps the values of every trained token for `take_token_values`.
        """
        options, tokens = evolve(self.options, entropy_coeff=self.entropy_coeff), TokenRecord() if record else None
        parts = cut_mini_batches(rows, options.mini_batch_num)
        live = [select_live_rows(part, every_row=self._kl_in_loss or options.entropy_coeff > 0) for part in parts]
        plans = [self._prepare(part, own) for part, own in zip(parts, live, strict=True)]
        # With one mini-batch the trained weights are those that the step began with: the ratio is 1 in value.
        old = [[logprobs(self._forward, batch, options) for batch in plan] for plan in plans] if len(plans) > 1 else None

        lr = compute_learning_rate(
            step,
            lr=options.lr,
            warmup_steps=options.lr_warmup_steps,
            schedule=options.lr_scheduler_type,
            total_steps=options.total_steps,
        )
        sums: defaultdict[str, float] = defaultdict(float)
        largest, norms = 0.0, []
        numbers = {id(row): number for number, row in enumerate(rows)}
        size = UpdateSize(self.parameters.values())
        for number, plan in enumerate(plans):
            for place, batch in enumerate(plan):
                before = None if old is None else old[number][place]
                stacks = None if tokens is None else tokens.stacks
                reference = self._reference_logprobs(batch)
                found = accumulate(self._forward, batch, options, old=before, reference=reference, record=stacks)
                if tokens is not None:
                    own = [live[number][place] for place in batch.rows]
                    tokens.add_rows([numbers[id(row)] for row in own], [row.sample.trained for row in own])
                largest = max(largest, found.pop("abs_max"))
                for name, value in found.items():
                    sums[name] += value
                sums["computed"] += len(batch.ids)
            if plan:
                norms.append(self._apply(lr))
        self.step = step
        self._token_values = None if tokens is None else tokens.read(len(rows))
        return {
            **compute_signal_metrics(rows, list(chain.from_iterable(live)), norms),
            **self._means(sums, largest, norms, len(parts)),
            **({"update/relative": size.measure()} if any(map(math.isfinite, norms)) else {}),
            "lr": lr,
        }

    def take_token_values(self) -> TokenValues | None:
        """Return the values of the rows of the last update that was asked to record them, once; None if nothing was trained."""
        taken, self._token_values = self._token_values, None
        return taken

    def reference_kl(self, samples: Sequence[Sample]) -> list[NDArray[np.float64]]:
        """Return, per sample, the estimator `options.kl_reward_type` of log π - log ρ at each of its trained tokens.

        Both are computed alike, π with the current weights and ρ with the reference's: the divergence for a reward, without the
        rounding of the sampler.
        """
        if self._reference is None:
            raise ValueError("no reference to measure from: make the Trainer with reference=, or with a model that has adapters")
        batches, found = self._lay_out_samples(samples), []
        k3 = tokens = 0.0
        for batch in batches:
            with self._reference.forward() as forward:
                reference = logprobs(forward, batch, self.options)
            own = logprobs(self._forward, batch, self.options)
            found.append(divergence(own, reference, self.options.kl_reward_type))
            k3 += divergence(own, reference, "low_var_kl").sum().item()
            tokens += len(batch.targets)
        self._reward_kl = k3 / tokens if tokens else None
        return _split_by_sample(samples, batches, found)

    def add_scorer(self, name: str, model: nn.Module) -> None:
        """Take a frozen model for `score`."""
        self._scorers[name] = Reference(model, self._forward, model, getattr(torch, self.options.dtype))

    def score(self, samples: Sequence[Sample], sampling: Sampling, *, by: str | None = None) -> list[NDArray[np.float64]]:
        """Return, per sample, log π at each of its trained tokens, in the distribution of the sampling.

        `by` names another model in place of the trained one: a scorer, or `reference`.
        """
        options = evolve(self.options, temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k)
        batches = self._lay_out_samples(samples)
        scorer = self._reference if by == "reference" else self._scorers.get(by or "")
        if by is not None and scorer is None:
            raise ValueError(f"no model {by!r} to score with")
        with nullcontext(self._forward) if scorer is None else scorer.forward() as forward:
            found = [logprobs(forward, batch, options) for batch in batches]
        return _split_by_sample(samples, batches, found)

    def measure_fit(self, samples: Sequence[Sample]) -> Fit:
        """Return how well the current weights predict the trained tokens."""
        batches = self._lay_out_samples(samples)
        fit, first = measure_fit(self._forward, batches, self.options)
        places = [np.flatnonzero(sample.mask) for sample in samples]
        chosen = _split_by_sample(samples, batches, first)
        return evolve(fit, misses=find_misses([sample.ids for sample in samples], places, chosen))

    def save(self, directory: Path) -> None:
        """Write what `load` needs to continue bit for bit with the same weights: moments, step, options."""
        save_state(
            directory,
            self.parameters,
            self._optimizer,
            step=self.step,
            options=self.options,
            reference=self._reference.fingerprint() if self._reference else "",
        )

    def load(self, directory: Path, *, may_differ: Collection[str] = ()) -> None:
        """Continue from a state that `save` wrote. Raises UsageError when it belongs to another model, reference or options.

        `may_differ` names options that may have changed since.
        """
        self.step = load_state(
            directory,
            self.parameters,
            self._optimizer,
            options=self.options,
            reference=self._reference.fingerprint() if self._reference else "",
            may_differ=may_differ,
        )

    def _prepare(self, part: Sequence[TrainRow], live: Sequence[TrainRow]) -> list[MicroBatch]:
        """Lay out the rows of a mini-batch that have a gradient; the denominators count all of them."""
        options = self.options
        counted = compute_token_shares(part, options.loss_agg_mode, options.max_response_length)
        shares = dict(zip(map(id, part), counted, strict=True))
        return self._lay_out(live, [shares[id(row)] for row in live])

    def _lay_out_samples(self, samples: Sequence[Sample]) -> list[MicroBatch]:
        rows = [TrainRow(sample=sample, advantage=0.0, group=sample.task_id) for sample in samples]
        return self._lay_out(rows, [1.0] * len(rows))

    def _lay_out(self, rows: Sequence[TrainRow], shares: Sequence[float]) -> list[MicroBatch]:
        return prepare(
            rows,
            shares,
            limit=self._limit,
            share_prefixes=self.options.share_prefixes,
            device=self._device,
            recompute_above=self._recompute_above,
        )

    @property
    def _kl_in_loss(self) -> bool:
        return self.options.use_kl_loss and self.options.kl_loss_coef > 0

    def _reference_logprobs(self, batch: MicroBatch) -> Tensor | None:
        if not self.options.use_kl_loss or self._reference is None:
            return None
        with self._reference.forward() as forward:
            return logprobs(forward, batch, self.options)

    def _apply(self, lr: float) -> float:
        """Make one optimizer step and return the gradient's norm before clipping. A non-finite gradient is skipped."""
        limit = self.options.grad_clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters.values(), limit))
        if math.isfinite(norm):
            for group in self._optimizer.param_groups:
                group["lr"] = lr
            self._optimizer.step()
            self._forward.refresh()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    def _means(self, sums: Mapping[str, float], largest: float, norms: Sequence[float], parts: int) -> dict[str, float]:
        """Turn sums over tokens into metrics; a step with nothing to train has only a count of 0."""
        metrics = {"tokens/computed": sums.get("computed", 0.0)}
        if self._reward_kl is not None:
            metrics["kl/mean"], self._reward_kl = self._reward_kl, None
        if self.options.use_kl_loss and sums.get("tokens"):
            metrics["kl/mean"] = sums["kl"] / sums["tokens"]
        return metrics | compute_update_metrics({**sums, "abs_max": largest}, norms, parts)


def _split_by_sample(samples: Sequence[Sample], batches: Sequence[MicroBatch], found: Sequence[Tensor]) -> list[Any]:
    """Return what was found of the trained tokens of each pass, as an array for each sample."""
    split = [np.zeros(0)] * len(samples)
    for batch, values in zip(batches, found, strict=True):
        ends = np.cumsum([samples[number].trained for number in batch.rows])
        for number, own in zip(batch.rows, np.split(values.double().cpu().numpy(), ends[:-1]), strict=True):
            split[number] = own
    return split


def _make_optimizer(parameters: Iterable[nn.Parameter], options: TrainerOptions) -> Optimizer:
    settings: dict[str, Any] = {"lr": options.lr, "betas": options.betas, "weight_decay": options.weight_decay}
    if options.weight_dtype == options.moment_dtype == "float32":
        return torch.optim.AdamW(parameters, **settings, fused=True)
    return RoundedAdamW(parameters, **settings, moments=getattr(torch, options.moment_dtype))
