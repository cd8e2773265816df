"""Rows as the server's training calls take them, with advantages that give our gradient whatever it makes of their losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from astuner.contract.schema import Sample

if TYPE_CHECKING:
    from astuner_tinker.probe import ServerFacts

MOST_ROWS, MOST_TOKENS = 128, 60_000
"""Of one call: below the bounds at which the SDK would cut it, which decide what a mean is over."""

Within = Literal["sum", "tokens", "rows"]
"""What the server makes of the losses of a call: their sum, their mean over tokens, the mean over rows of each row's mean."""
Across = Literal["adds", "averages"]
"""Whether the gradients of several calls before an optimizer step add up, or the mean is over all of their rows."""

Item = TypeVar("Item")


@frozen(kw_only=True, eq=False)
class Row:
    """A sample, and what is trained of it."""

    sample: Sample
    logprobs: NDArray[np.float32]
    """[trained tokens] that the server's ratio is to."""
    advantages: NDArray[np.float64]
    """[trained tokens], times the token's share of the loss."""


def cut_calls(rows: Sequence[Item], lengths: Sequence[int]) -> Iterator[list[Item]]:
    """Cut rows, in their order, into calls that the SDK sends whole."""
    call: list[Item] = []
    tokens = 0
    for row, length in zip(rows, lengths, strict=True):
        if call and (len(call) == MOST_ROWS or tokens + length > MOST_TOKENS):
            yield call
            call, tokens = [], 0
        call.append(row)
        tokens += length
    if call:
        yield call


def compute_factors(calls: Sequence[Sequence[int]], within: Within, across: Across) -> list[list[float]]:
    """Return by what each row's advantages are multiplied, given the weighed tokens of the rows of each call before a step.

    A clipped or an importance-sampled loss is homogeneous: the factor takes the server's division back.
    """
    every = [tokens for call in calls for tokens in call]
    units = [every if across == "averages" else call for call in calls]

    def compute(unit: Sequence[int], own: int) -> float:
        return {"sum": 1.0, "tokens": float(sum(unit)), "rows": float(len(unit) * own)}[within]

    return [[compute(unit, own) for own in call] for unit, call in zip(units, calls, strict=True)]


def make_training_data(rows: Sequence[Row], facts: ServerFacts) -> list[list[Any]]:
    """Return the data of the calls of one optimizer step."""
    calls = list(cut_calls(rows, [len(row.sample.ids) for row in rows]))
    weighed = [[row.sample.trained if facts.weights else len(row.sample.ids) - 1 for row in call] for call in calls]
    factors = compute_factors(weighed, facts.within, facts.across)
    return [
        [_make_datum(row, factor, weights=facts.weights) for row, factor in zip(call, own, strict=True)]
        for call, own in zip(calls, factors, strict=True)
    ]


def make_scoring_data(samples: Sequence[Sample]) -> list[list[Any]]:
    """Return the data of the calls that ask for the log-probabilities of samples."""
    data = [_make(sample, weights=sample.mask.astype(np.float32)) for sample in samples]
    return list(cut_calls(data, [len(sample.ids) for sample in samples]))


def read_logprobs(answers: Sequence[Any], samples: Sequence[Sample]) -> list[NDArray[np.float32]]:
    """Return, per sample, the log-probability of each of its trained tokens from the answers to their calls."""
    found = [np.asarray(one["logprobs"].data, np.float32) for answer in answers for one in answer.loss_fn_outputs]
    return [values[: len(sample.ids) - 1][sample.mask[1:]] for values, sample in zip(found, samples, strict=True)]


def _make_datum(row: Row, factor: float, *, weights: bool) -> Any:
    mask = row.sample.mask
    logprobs, advantages = np.zeros(len(mask), np.float32), np.zeros(len(mask), np.float32)
    logprobs[mask], advantages[mask] = row.logprobs, row.advantages * factor
    return _make(
        row.sample, logprobs=logprobs, advantages=advantages, **({"weights": mask.astype(np.float32)} if weights else {})
    )


def _make(sample: Sample, **inputs: NDArray[np.float32]) -> Any:
    from tinker import types

    targets = {"target_tokens": sample.ids[1:].astype(np.int64), **{name: values[1:] for name, values in inputs.items()}}
    return types.Datum(model_input=types.ModelInput.from_ints(sample.ids[:-1].tolist()), loss_fn_inputs=targets)
