"""What a trainer computed of each token that it trained, in the order of the step's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Flags = NDArray[np.uint8]
    Lengths = NDArray[np.int64]

STACKED = ("logprobs", "entropies", "reference_logprobs", "ratios", "rl", "ce", "ref_kl", "clips")
"""The rows of what `astuner.runs.training.losses.stack_token_values` returns."""


def _check_lengths(instance: TokenValues, _: Any, lengths: Lengths) -> None:
    total = int(lengths.sum())
    for name in STACKED:
        found = getattr(instance, name).shape
        if found != (total,):
            raise ValueError(f"{name} has the shape {found}; the rows have {total} trained tokens, so it must be ({total},)")


@frozen(kw_only=True, eq=False)
class TokenValues:
    """Values of all trained tokens of some rows, one array [tokens] each: row after row, NaN where there is no value."""

    logprobs: Floats
    """In the trainer, when the token was trained."""
    entropies: Floats
    reference_logprobs: Floats
    ratios: Floats
    """π/π_old, with the weights that the step began with."""
    rl: Floats
    """Weight of the policy gradient: the advantage times any importance weight."""
    ce: Floats
    """Weight of the likelihood."""
    ref_kl: Floats
    """Weight of the divergence from the reference."""
    clips: Flags
    """1 clipped at the lower bound, 2 at the upper one, 3 by the dual clip, 0 not at all."""
    lengths: Lengths = field(validator=_check_lengths)
    """[rows] trained tokens of each row; 0 for one that was left out. Raises `ValueError` if an array has another length."""

    @classmethod
    def from_stack(cls, stack: NDArray[Any], lengths: Sequence[int] | Lengths) -> TokenValues:
        """Take the rows of `STACKED`, [8, tokens]."""
        found = dict(zip(STACKED, np.asarray(stack, np.float32), strict=True))
        return cls(lengths=np.asarray(lengths, np.int64), **{**found, "clips": found["clips"].astype(np.uint8)})


def join_passes(passes: Iterable[tuple[Sequence[int], TokenValues]], rows: int) -> TokenValues | None:
    """Return the values of all `rows` of a step from those of its passes, each with the numbers of the rows that it holds.

    Of a row in several passes, as in several epochs over a step, the first one's values count: they belong to the weights that
    the step began with. It is clipped as in all of them. None if there is no pass.
    """
    first: dict[int, tuple[TokenValues, slice]] = {}
    clips: dict[int, Flags] = {}
    for numbers, values in passes:
        ends = np.cumsum(values.lengths).tolist()
        for number, count, end in zip(numbers, values.lengths.tolist(), ends, strict=True):
            place = slice(end - count, end)
            first.setdefault(number, (values, place))
            # A token's advantage has one sign, so only the lower bound (1) and the dual clip (3) can meet.
            clips[number] = clips[number] | values.clips[place] if number in clips else values.clips[place]
    if not first:
        return None
    order = sorted(first)
    lengths = np.zeros(rows, np.int64)
    lengths[order] = [len(clips[number]) for number in order]
    names = [name for name in STACKED if name != "clips"]
    joined = {name: np.concatenate([getattr(first[number][0], name)[first[number][1]] for number in order]) for name in names}
    return TokenValues(lengths=lengths, clips=np.concatenate([clips[number] for number in order]), **joined)
