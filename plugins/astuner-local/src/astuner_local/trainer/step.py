"""One pass: rows in, gradients of their share of the loss added to the parameters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import frozen
from torch import Tensor

from astuner.contract.protocols import TrainedTokens
from astuner.runs.training import TokenStreams, TokenTerms, stack_token_values, token_terms
from astuner_local.trainer.attention import Layout, Tree, attend_over, make_layout
from astuner_local.trainer.logprobs import compute_logprobs, count_rows_at_once, score_tokens
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.packing import micro_batches, pack
from astuner_local.trainer.pass_size import PassLimit
from astuner_local.trainer.rows import TrainRow

if TYPE_CHECKING:
    from astuner_local.forward.seam import Forward


@frozen(kw_only=True, eq=False)
class MicroBatch:
    """The rows of one pass, on the device."""

    ids: Tensor
    """[N] packed tokens"""
    positions: Tensor
    """[N]"""
    plan: Layout | tuple[Tree, ...]
    predictors: Tensor
    """[R] packed places whose hidden states predict the trained tokens"""
    targets: Tensor
    """[R]"""
    sampler: Tensor
    """[R] log-probabilities that the sampler recorded"""
    advantages: Tensor
    """[R]"""
    shares: Tensor
    """[R] factors of the tokens' losses"""
    streams: TokenStreams | None
    """[R] what an estimator adds to the loss"""
    rows: Sequence[int]
    """Which of the given rows these are."""
    owners: Tensor
    """[R] the row of each trained token, as an index into `rows`, on the device"""
    recompute: bool
    """Whether the backward pass computes the layers again."""


def prepare(
    rows: Sequence[TrainRow],
    shares: Sequence[float],
    *,
    limit: PassLimit,
    share_prefixes: bool,
    device: torch.device,
    recompute_above: int = sys.maxsize,
) -> list[MicroBatch]:
    """Lay out rows in passes of at most `limit`. Each token's loss counts `shares[row]` times.

    Passes of more than `recompute_above` tokens, counted as `limit.tokens` are, do not keep their activations.
    """
    batches = []
    for chosen in micro_batches(rows, limit=limit, share_prefixes=share_prefixes):
        packed = pack([rows[i] for i in chosen], share_prefixes=share_prefixes)
        if not len(packed.targets):
            continue
        advantages = np.concatenate([rows[i].spread() for i in chosen]).astype(np.float32)
        factors = np.array([shares[i] for i in chosen], np.float32)[packed.owners]
        batches.append(
            MicroBatch(
                ids=torch.from_numpy(packed.ids).to(device),
                positions=torch.from_numpy(packed.positions).to(device),
                plan=make_layout(packed, device),
                predictors=torch.from_numpy(packed.predictors).to(device),
                targets=torch.from_numpy(packed.targets).to(device),
                sampler=torch.from_numpy(packed.sampler).to(device),
                advantages=torch.from_numpy(advantages).to(device),
                shares=torch.from_numpy(factors).to(device),
                streams=_join_streams([rows[i] for i in chosen], device),
                rows=chosen,
                owners=torch.from_numpy(packed.owners).to(device),
                recompute=packed.measure().count(limit) > recompute_above,
            )
        )
    return batches


def _join_streams(rows: Sequence[TrainRow], device: torch.device) -> TokenStreams | None:
    if not any(row.others for row in rows):
        return None

    def join(name: str) -> Tensor:
        each = [row.others.get(name, np.zeros(row.sample.trained)) for row in rows]
        return torch.from_numpy(np.concatenate(each).astype(np.float32)).to(device)

    return TokenStreams(likelihood=join("likelihood"), divergence=join("divergence"), reference=join("reference"))


def accumulate(
    forward: Forward,
    batch: MicroBatch,
    options: TrainerOptions,
    *,
    old: Tensor | None = None,
    reference: Tensor | None = None,
    record: list[Tensor] | None = None,
) -> dict[str, float]:
    """Add the gradient of a pass to the parameters; return sums over its tokens, as `TOKEN_SUMS` names them, and `abs_max`.

    `old` [R] are the log-probabilities at the step's start; None when these are the current ones. `reference` [R] are those of
    the reference, for the divergence in the loss. `record` gets what is recorded of the tokens: [6, r] of each piece of R.
    """
    attend = attend_over(batch.plan, forward.scale)
    hidden = forward.hidden(batch.ids, batch.positions, attend, recompute=batch.recompute)  # [N, d]
    wanted = hidden.index_select(0, batch.predictors)  # [R, d]
    rows_per_pass = count_rows_at_once(options, len(wanted), forward.vocab_size, wanted.device)
    whole: TokenTerms | None = None
    if rows_per_pass < len(wanted) and not options.per_token:
        # A token's loss depends on the rest of its sample, so all log-probabilities come first.
        now = _read_logprobs(forward, wanted.detach(), batch, options)
        whole = _compute_terms(now, batch, slice(None), options, old, reference)
    gradients, sums, largest = [], [], []
    names: list[str] = []

    # The loss is a sum over tokens, so the logits are differentiated and freed in pieces: never all of [R, vocab].
    for start in range(0, len(wanted), rows_per_pass):
        part = slice(start, start + rows_per_pass)

        def differentiate(logits: Tensor, part: slice = part) -> Tensor:
            scores = score_tokens(logits, batch.targets[part], options)
            now = scores.logprobs
            terms = _compute_terms(now, batch, part, options, old, reference) if whole is None else whole.cut(part)
            if record is not None:
                record.append(stack_token_values(now, terms, scores.entropy))
            measured = {"tokens": torch.ones_like(now), "entropy": scores.entropy, **terms.measured}
            names[:] = measured
            each = torch.stack([values.to(now.dtype) for values in measured.values()])  # [sums, r]
            sums.append(each.sum(1, dtype=torch.float64))
            largest.append(terms.drift.abs().max())
            return scores.pull(terms.slope, -options.entropy_coeff * batch.shares[part] if options.entropy_coeff else None)

        gradients.append(forward.pull_logits(wanted[part].detach(), differentiate))
    wanted.backward(torch.cat(gradients))  # type: ignore[no-untyped-call]  # torch ships it without types
    totals = torch.stack(sums).sum(0).tolist()
    return {**dict(zip(names, totals, strict=True)), "abs_max": float(torch.stack(largest).max())}


def _compute_terms(
    now: Tensor, batch: MicroBatch, part: slice, options: TrainerOptions, old: Tensor | None, reference: Tensor | None
) -> TokenTerms:
    """Return what the loss makes of some trained tokens, of which `now` are the log-probabilities."""
    tokens = TrainedTokens(
        logp=now,
        old=now if old is None else old[part],
        sampler=batch.sampler[part],
        advantages=batch.advantages[part],
        samples=batch.owners[part],
    )
    of_reference = None if reference is None else reference[part]
    streams = None if batch.streams is None else batch.streams.cut(part)
    return token_terms(tokens, shares=batch.shares[part], options=options, reference=of_reference, streams=streams)


@torch.no_grad()
def logprobs(forward: Forward, batch: MicroBatch, options: TrainerOptions) -> Tensor:
    """Return the log-probabilities [R] of the trained tokens of a pass under some weights."""
    hidden = forward.hidden(batch.ids, batch.positions, attend_over(batch.plan, forward.scale))  # [N, d]
    return _read_logprobs(forward, hidden.index_select(0, batch.predictors), batch, options)


@torch.no_grad()
def _read_logprobs(forward: Forward, wanted: Tensor, batch: MicroBatch, options: TrainerOptions) -> Tensor:
    """Return the log-probabilities [R] of the trained tokens, given the hidden states [R, d] that predict them."""
    rows_per_pass = count_rows_at_once(options, len(wanted), forward.vocab_size, wanted.device)
    pieces = zip(torch.split(wanted, rows_per_pass), torch.split(batch.targets, rows_per_pass), strict=True)
    return torch.cat([compute_logprobs(forward.logits(piece), targets, options) for piece, targets in pieces])
