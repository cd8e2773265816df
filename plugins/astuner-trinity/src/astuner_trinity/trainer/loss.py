"""The loss of every backbone on verl's workers, as a Trinity policy loss."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen
from trinity.algorithm.entropy_loss_fn.entropy_loss_fn import EntropyLossFn
from trinity.algorithm.policy_loss_fn.policy_loss_fn import PolicyLossFn

from astuner.contract.protocols import TrainedTokens
from astuner.runs.training import LossOptions, TokenStreams, TokenTerms, token_terms
from astuner_trinity.planned_parts import make_loss
from astuner_trinity.rows import MEASURED, STREAMS
from astuner_trinity.trainer.kept_values import KeptValues

if TYPE_CHECKING:
    from torch import Tensor


@frozen(eq=False)
class WeighedPass:
    """The loss of a pass."""

    loss: Tensor
    sums: Mapping[str, Tensor]
    """Over the tokens that train."""
    terms: TokenTerms
    """What it is made of, [tokens]."""
    mask: Tensor
    """[rows, longest answer] which tokens these are."""


def compute_weighed_loss(
    options: LossOptions,
    logp: Tensor,
    *,
    sampler: Tensor,
    mask: Tensor,
    advantages: Tensor,
    share: Tensor,
    stale: Tensor,
    reference: Tensor | None = None,
    streams: Mapping[str, Tensor] | None = None,
    workers: int = 1,
) -> WeighedPass:
    """Return the loss of a pass.

    Tensors are [rows, longest answer], `share` and `stale` [rows]; those of `streams` have the names of `TokenStreams`' fields.
    Each token's loss (`astuner.runs.training.losses`) times its row's factor, which core computed from the whole step: the sum
    over passes is the loss, so neither passes nor padding change it.
    Workers average their gradients, so it is multiplied by their number.

    For rows sampled by the weights at the step's start, the ratio is to these, so it is 1; for rows of older weights it is to
    those, by their log-probabilities, and clipped.
    """
    mask = mask.bool()
    if not mask.any():
        # A pass of padding: one token that counts nothing, so that no loss meets a pass without any.
        mask, share = mask.clone(), share * 0
        mask[0, 0] = True
    rows, trained = mask.nonzero()[:, 0], logp[mask]
    now, engine, factors = trained.detach(), sampler[mask], share[rows].to(logp.dtype)
    tokens = TrainedTokens(
        logp=trained,
        old=engine.where(stale[rows] > 0, now),
        sampler=engine,
        advantages=advantages[mask],
        # Rows without a token are not counted: a loss may make a tensor of as many samples as tokens.
        samples=(mask.any(1).cumsum(0) - 1)[rows],
    )
    known = reference[mask] if reference is not None and options.kl_loss_coef > 0 else None
    added = TokenStreams(**{name: values[mask].to(logp.dtype) for name, values in streams.items()}) if streams else None
    terms = token_terms(tokens, shares=factors, options=options, reference=known, trainer=now, streams=added)
    live = factors > 0
    measured = {"tokens": live, "drift": terms.drift, **terms.measured}
    sums = {
        **{name: (value * live).sum() for name, value in measured.items()},
        "abs_max": (terms.drift.abs() * live).max(),
        # Relative to the same values as the update: exactly 1 for rows sampled by the step's own weights.
        "update_ratio": ((terms.ratio - 1).abs() * live).max(),
    }
    return WeighedPass(terms.add_up(trained, factors) * workers, sums, terms, mask)


class WeighedLoss(PolicyLossFn):
    """Trinity passes the tensors that `__call__` names."""

    kept: KeptValues | None = None
    """For the record of the update under way; None if none is made."""
    _select_keys: list[str]

    def __init__(
        self,
        backend: str = "verl",
        plan: str = "",
        token_parts: str | None = None,
        sequence_parallel: int = 1,
        streams: bool = False,
        **kl: Any,
    ) -> None:
        """Take the file that the run is planned from, which has its loss; that of PPO without one.

        `token_parts` is the directory of what is recorded of trained tokens, None for no record; `kl` are fields of
        `LossOptions`; with `streams` the batch has columns of what an estimator adds to the loss. The workers that share a
        sequence (`sequence_parallel`) count as one when gradients are averaged.
        """
        super().__init__(backend=backend)
        # Trinity computes the reference's for a divergence alone.
        missing = (*(() if kl.get("kl_loss_coef") else ("ref_logprob",)), *(() if streams else STREAMS))
        self._select_keys = [name for name in self._select_keys if name not in missing]
        self._plan, self._kl, self._sequence_parallel = plan, kl, sequence_parallel
        self.token_parts = None if token_parts is None else Path(token_parts)

    @property
    def options(self) -> LossOptions:
        """Made where they are used: the loss may be of a module that the worker has to find itself."""
        if not self._plan:
            return LossOptions(**self._kl)
        policy_loss, correction = make_loss(self._plan)
        return LossOptions(policy_loss=policy_loss, correction=correction, **self._kl)

    def __call__(  # type: ignore[no-untyped-def]  # its metaclass reads the names
        self,
        logprob,
        old_logprob,
        action_mask,
        advantages,
        share,
        stale,
        row,
        ref_logprob=None,
        likelihood=None,
        divergence=None,
        reference=None,
        **kwargs,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the loss of a pass, and its sums as metrics."""
        workers = _count_workers(self._sequence_parallel)
        tensors = {"sampler": old_logprob, "mask": action_mask, "advantages": advantages, "share": share, "stale": stale}
        streams = {} if likelihood is None else dict(zip(STREAMS, (likelihood, divergence, reference), strict=True))
        found = compute_weighed_loss(self.options, logprob, reference=ref_logprob, workers=workers, streams=streams, **tensors)
        if self.kept is not None:
            self.kept.add(row, found.mask, logprob, found.terms)
        return found.loss, _sum_over_workers(found.sums, workers)

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """Return the arguments: those of the configuration are needed."""
        return {}


class EntropyMeasure(EntropyLossFn):
    """Measures the entropy of the trained tokens, and rewards it with the weight of `algorithm.entropy_ctrl`."""

    kept: KeptValues | None = None
    """As in the policy's loss, which Trinity calls first in each pass."""

    def __init__(self, sequence_parallel: int = 1, entropy_coef: float = 0.0) -> None:
        """Take the number of workers that share a sequence, and the weight in the loss."""
        self._sequence_parallel, self._weight = sequence_parallel, entropy_coef

    def __call__(self, entropy: Tensor, action_mask: Tensor, *, share: Tensor, **_: Any) -> tuple[Any, dict[str, Any]]:
        """Return what Trinity subtracts from the loss, and the sum over the tokens that train, in nats."""
        if self.kept is not None:
            self.kept.add_entropies(entropy)
        workers, factors = _count_workers(self._sequence_parallel), share.unsqueeze(1) * action_mask
        sums = {"entropy": (entropy.detach() * (factors > 0)).sum()}
        reward = self._weight * workers * (entropy * factors).sum() if self._weight else 0.0
        return reward, _sum_over_workers(sums, workers)

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """Return the arguments: none."""
        return {}


@contextmanager
def record_tokens(loss: Any, *, step: int, worker: int) -> Iterator[None]:
    """Write what the passes of an update compute of each token, if Trinity's `loss` is made of ours and the run records them.

    Started without us, by `trinity run`, a run has no directory for that.
    """
    # A critic's loss has neither.
    policy, entropy = (getattr(loss, name, None) for name in ("policy_loss_fn", "entropy_loss_fn"))
    directory = policy.token_parts if isinstance(policy, WeighedLoss) else None
    # Unlike Path.is_dir, it raises nothing, whatever becomes of a file system.
    if directory is None or not os.path.isdir(directory):
        yield
        return
    kept, keepers = KeptValues(), [one for one in (policy, entropy) if isinstance(one, WeighedLoss | EntropyMeasure)]
    for one in keepers:
        one.kept = kept
    try:
        yield
    finally:
        for one in keepers:
            one.kept = None
    kept.write(directory, step, worker)


def _count_workers(sequence_parallel: int) -> int:
    import torch.distributed as dist

    return max(1, dist.get_world_size() // sequence_parallel) if dist.is_initialized() else 1


def _sum_over_workers(sums: Mapping[str, Tensor], workers: int) -> dict[str, Any]:
    """Return metrics that Trinity, which averages those of workers, turns into sums and maxima."""
    from verl.utils.metric import AggregationType, Metric

    most = ("abs_max", "update_ratio")
    return {
        f"{MEASURED}{name}": Metric(
            value=float(value) * (1 if name in most else workers),
            aggregation=AggregationType.MAX if name in most else AggregationType.SUM,
        )
        for name, value in sums.items()
    }
