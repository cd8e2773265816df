"""Rows as the server's training calls take them, with advantages that give our gradient whatever it makes of their losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
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

Values = NDArray[Any]


def cut_calls(samples: Sequence[Sample]) -> Iterator[slice]:
    """Cut samples, in their order, into calls that the SDK sends whole."""
    start = tokens = 0
    for place, sample in enumerate(samples):
        if place > start and (place - start == MOST_ROWS or tokens + len(sample.ids) > MOST_TOKENS):
            yield slice(start, place)
            start, tokens = place, 0
        tokens += len(sample.ids)
    yield slice(start, len(samples))


def compute_factors(calls: Sequence[Sequence[int]], within: Within, across: Across) -> list[float]:
    """Return by what each row's advantages are multiplied, given the weighed tokens of the rows of each call before a step.

    A clipped or an importance-sampled loss is homogeneous: the factor takes the server's division back.
    """
    factors: list[float] = []
    for call in calls:
        unit = [tokens for other in calls for tokens in other] if across == "averages" else call
        factors += [{"sum": 1.0, "tokens": float(sum(unit)), "rows": float(len(unit) * own)}[within] for own in call]
    return factors


def make_training_data(
    samples: Sequence[Sample], logprobs: Sequence[Values], advantages: Sequence[Values], facts: ServerFacts
) -> list[list[Any]]:
    """Return the data of the calls of one optimizer step.

    `logprobs` [trained tokens] is what the server's ratio is to, `advantages` [trained tokens] are times the share of the token.
    """
    calls = list(cut_calls(samples))
    weighed = [sample.trained if facts.weights else len(sample.ids) - 1 for sample in samples]
    factors = compute_factors([weighed[call] for call in calls], facts.within, facts.across)
    data = [
        make_datum(sample, weights=1.0 if facts.weights else None, logprobs=old, advantages=weights * factor)
        for sample, old, weights, factor in zip(samples, logprobs, advantages, factors, strict=True)
    ]
    return [data[call] for call in calls]


def make_scoring_data(samples: Sequence[Sample]) -> list[list[Any]]:
    """Return the data of the calls that ask for the log-probabilities of samples."""
    data = [make_datum(sample, weights=1.0) for sample in samples]
    return [data[call] for call in cut_calls(samples)]


def read_logprobs(answers: Sequence[Any], samples: Sequence[Sample]) -> list[NDArray[np.float32]]:
    """Return, per sample, the log-probability of each of its trained tokens from the answers to their calls."""
    found = [np.asarray(one["logprobs"].data, np.float32) for answer in answers for one in answer.loss_fn_outputs]
    return [values[: len(sample.ids) - 1][sample.mask[1:]] for values, sample in zip(found, samples, strict=True)]


def make_datum(sample: Sample, **inputs: Values | float | None) -> Any:
    """Return a row, with inputs of the loss that are given for its trained tokens, and 0 elsewhere; None is left out."""
    from tinker import types

    given: dict[str, Any] = {"target_tokens": sample.ids[1:].astype(np.int64)}
    for name, values in inputs.items():
        if values is not None:
            spread = np.zeros(len(sample.ids), np.float32)
            spread[sample.mask] = values
            given[name] = spread[1:]
    return types.Datum(model_input=types.ModelInput.from_ints(sample.ids[:-1].tolist()), loss_fn_inputs=given)
