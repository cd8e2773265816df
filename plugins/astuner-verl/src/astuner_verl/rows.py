"""Samples as tensors for verl's workers: rows without padding, in an order that balances the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from astuner.contract.schema import Sample
from astuner_verl.shared_prefixes.layout import count_packed
from astuner_verl.token_record import NUMBERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

STRETCH = "stretch"
"""The field with what `choose_units` returns last."""
SCORER = "scorer"
"""The field that names the model by which rows are scored."""
STREAMS = ("likelihood", "divergence", "reference")
"""The fields of what an estimator adds to the loss."""


@frozen(kw_only=True, eq=False)
class TrainRow:
    """One sample on its way to the trainer: numpy only."""

    ids: NDArray[np.int64]
    """[n], up to the last trained token"""
    start: int
    """Index of the first trained token; at least 1."""
    mask: NDArray[np.bool_]
    """[n - start]"""
    logprobs: NDArray[np.float32]
    """[n - start], of the sampler"""
    advantages: NDArray[np.float32]
    """[n - start]"""
    share: float
    """Factor of each trained token's loss."""
    number: int = -1
    """Which of the step's rows it is, if the values of its tokens are recorded."""
    streams: Mapping[str, NDArray[np.float32]] = field(factory=dict)
    """[n - start], by the fields of `TokenStreams`; those that are missing are 0."""


def train_row(
    sample: Sample,
    advantages: NDArray[np.float64] | float = 0.0,
    share: float = 0.0,
    number: int = -1,
    streams: Mapping[str, NDArray[np.float64]] | None = None,
) -> TrainRow:
    """Make a row from a sample with at least one trained token; tokens after the last of these are dropped.

    `advantages` and `streams` are those of the trained tokens.

    Raises `ValueError` for a first id that is trained: nothing precedes it.
    """
    trained = np.flatnonzero(sample.mask)
    start, end = int(trained[0]), int(trained[-1]) + 1
    if start == 0:
        raise ValueError(f"sample of episode {sample.episode_id!r}: its first id is marked as trained, but nothing precedes it")

    def spread(values: NDArray[np.float64] | float) -> NDArray[np.float32]:
        placed = np.zeros(end - start, np.float32)
        placed[sample.mask[start:end]] = values
        return placed

    return TrainRow(
        ids=sample.ids[:end].astype(np.int64),
        start=start,
        mask=sample.mask[start:end],
        logprobs=np.where(sample.mask[start:end], sample.logprobs[start:end], 0).astype(np.float32),
        advantages=spread(advantages),
        share=share,
        number=number,
        streams={name: spread(values) for name, values in (streams or {}).items()},
    )


def balance(lengths: Sequence[int], workers: int) -> list[int | None]:
    """Return the order of rows such that consecutive parts of equal length have about as many tokens; None is padding.

    Longest first, each row goes to the part with the fewest tokens that has room.
    """
    size = -(-len(lengths) // workers)
    parts: list[list[int | None]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        part = min((p for p in range(workers) if len(parts[p]) < size), key=lambda p: loads[p])
        parts[part].append(row)
        loads[part] += lengths[row]
    return [place for part in parts for place in [*part, *[None] * (size - len(part))]]


def arrange(lengths: Sequence[int], order: Sequence[int], workers: int, *, together: int) -> list[int | None]:
    """Return an order as `balance` does in which `together` neighbours of `order` stay neighbours; None is padding."""
    if together == 1:
        return balance(lengths, workers)
    units: list[list[int | None]] = [list(order[start : start + together]) for start in range(0, len(order), together)]
    places = balance([sum(lengths[row] for row in unit if row is not None) for unit in units], workers)
    arranged: list[int | None] = []
    for place in places:
        unit = [] if place is None else units[place]
        arranged += [*unit, *[None] * (together - len(unit))]
    return arranged


def choose_units(rows: Sequence[TrainRow], workers: int, *, most: int, limit: int) -> tuple[int, list[int | None], float]:
    """Return how many neighbours verl keeps in one pass, at most `most`; the order, as `arrange` has it; and the stretch.

    As many as have room in `limit` places where what they have in common lies once. verl counts all ids of a pass's rows; if
    it may take the stretch times `limit` of them, what is computed has room in `limit`.
    """
    lengths, neighbours, shortest = [len(row.ids) for row in rows], sort_by_prefix(rows), min(rows, key=lambda row: len(row.ids))
    for together in range(most, 0, -1):
        order = arrange(lengths, neighbours, workers, together=together)
        placed = [(shortest if place is None else rows[place]).ids for place in order]
        units = [placed[start : start + together] for start in range(0, len(placed), together)]
        packed, whole = [count_packed(unit) for unit in units], [sum(map(len, unit)) for unit in units]
        stretch = min(size / places for size, places in zip(whole, packed, strict=True))
        if max(packed) <= limit and max(whole) <= int(limit * stretch):
            break
    return together, order, stretch


def sort_by_prefix(rows: Sequence[TrainRow]) -> list[int]:
    """Return indices of rows such that those that begin alike are neighbours."""
    # Big-endian bytes of non-negative ids sort as the ids do.
    return sorted(range(len(rows)), key=lambda row: rows[row].ids.astype(">i8").tobytes())


def to_tensors(rows: Sequence[TrainRow], order: Sequence[int | None], **settings: Any) -> Any:
    """Return a TensorDict of the rows in an order, with `settings`; padding is the shortest row, untrained.

    Fields are nested tensors: `input_ids`, `position_ids` [n], and over the answer, [n - start], `prompts`' counterpart
    `responses`, `response_mask`, `loss_mask`, `rollout_log_probs`, `advantages`, `shares`, and `STREAMS` if a row has some.
    `numbers` [rows] is plain.
    """
    import torch
    from verl.utils import tensordict_utils as tu

    shortest = min(rows, key=lambda row: len(row.ids))
    chosen = [(shortest, False) if place is None else (rows[place], True) for place in order]

    def to_nested(values: list[Any], dtype: Any) -> Any:
        # Copied: the memory that Ray hands over cannot be written to.
        tensors = [torch.tensor(value, dtype=dtype) for value in values]
        return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)

    def spread_stream(row: TrainRow, name: str) -> Any:
        return row.streams.get(name, np.zeros_like(row.logprobs))

    given = STREAMS if any(row.streams for row in rows) else ()
    masks = [row.mask if real else np.zeros_like(row.mask) for row, real in chosen]
    fields = {
        "prompts": to_nested([row.ids[: row.start] for row, _ in chosen], torch.int64),
        "responses": to_nested([row.ids[row.start :] for row, _ in chosen], torch.int64),
        "input_ids": to_nested([row.ids for row, _ in chosen], torch.int64),
        "position_ids": to_nested([np.arange(len(row.ids)) for row, _ in chosen], torch.int64),
        "response_mask": to_nested(masks, torch.int64),
        "loss_mask": to_nested(masks, torch.int64),
        "rollout_log_probs": to_nested([row.logprobs for row, _ in chosen], torch.float32),
        "advantages": to_nested([row.advantages for row, _ in chosen], torch.float32),
        "shares": to_nested([mask * row.share for (row, _), mask in zip(chosen, masks, strict=True)], torch.float32),
        **{name: to_nested([spread_stream(row, name) for row, _ in chosen], torch.float32) for name in given},
        NUMBERS: torch.tensor([row.number if real else -1 for row, real in chosen]),
    }
    return tu.get_tensordict(tensor_dict=fields, non_tensor_dict=settings)
