"""The batch of a training step: all rows of one explorer step, each with the factor of its tokens' losses."""

from __future__ import annotations

import asyncio
import copy
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from attrs import define
from trinity.algorithm.sample_strategy.sample_strategy import SampleStrategy
from trinity.algorithm.sample_strategy.utils import representative_sample
from trinity.buffer import get_buffer_reader
from trinity.common.config import BufferConfig
from trinity.common.experience import EID, CustomField, Experience

from astuner.runs.training import Aggregation, compute_learning_rate, compute_token_shares
from astuner_trinity.layout import Layout
from astuner_trinity.packed_floats import unpack_floats
from astuner_trinity.rows import (
    AGENT,
    EPISODE,
    GROUP,
    IDLE,
    MEASURED,
    RATE,
    ROW,
    ROWS,
    SAMPLE,
    SHARE,
    STALE,
    STAMP,
    STEP,
    STREAMS,
    UNTRAINED,
    VERSION,
)
from astuner_trinity.token_parts import RowOwner, write_owners

FIELDS = (
    CustomField(SHARE, SHARE, torch.float32),
    CustomField(STALE, STALE, torch.float32),
    CustomField(RATE, RATE, torch.float64),
    CustomField(IDLE, IDLE, torch.float32),
    CustomField(ROW, ROW, torch.int64),
    CustomField(STEP, STEP, torch.int64),
)
NO_ROW = -1
"""The number of a row that is not recorded: it pads a worker's part, or keeps a step going that trains nothing."""
LOOK_S = 0.2


class StepBatches(SampleStrategy):
    """Reads whole explorer steps from the buffer; other rows are read by `buffer.train_batch_size`."""

    def __init__(self, buffer_config: BufferConfig, **options: Any) -> None:
        """Open the buffer."""
        super().__init__(buffer_config)
        self._reader = get_buffer_reader(buffer_config.trainer_input.experience_buffer)
        self._size = int(buffer_config.train_batch_size)
        self._options = options
        self._stop = Layout.of_plan(options["plan"]).stop if options.get("plan") else None
        self._token_parts = Path(options["token_parts"]) if options.get("token_parts") else None

    async def sample(self, step: int, **_: Any) -> tuple[list[Experience], dict[str, float], list[Any]]:
        """Return the rows of a step, metrics, and a few sample rows; raises `StopAsyncIteration` at the end."""
        began = time.perf_counter()
        first = await self._read(1)
        more = int(first[0].info.get(ROWS, self._size)) - 1
        rows = [*first, *(await self._read(more) if more > 0 else [])]
        check_one_step(rows)
        metrics = {"time/read_experience": time.perf_counter() - began}
        self.set_model_version_metric(rows, metrics)
        if all(GROUP in row.info for row in rows):
            rows, own = prepare_rows(rows, step, workers=self._count_workers(), options=self._options)
            metrics |= own
            if self._token_parts is not None:
                record_owners(self._token_parts, step, rows)
        return rows, metrics, representative_sample(rows)

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """Return the arguments: those of the configuration are needed."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the trainer's position in the buffer."""
        return dict(self._reader.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue at a position."""
        if state_dict:
            self._reader.load_state_dict(state_dict)

    async def _read(self, count: int) -> list[Experience]:
        reading = asyncio.ensure_future(self._reader.read(batch_size=count))
        while not reading.done():
            await asyncio.wait({reading}, timeout=LOOK_S)
            if not reading.done() and self._stop is not None and self._stop.exists():  # reads a directory
                reading.cancel()
                raise StopAsyncIteration
        return list(reading.result())

    def _count_workers(self) -> int:
        """Return the number of workers that share the rows."""
        import ray

        if workers := self._options.get("workers"):
            return int(workers)
        # `trinity run` without us: the GPUs that engines leave, as Trinity counts them.
        gpus = self._options.get("gpus") or int(ray.cluster_resources().get("GPU", 1))
        left = max(1, gpus - int(self._options.get("engine_gpus", 0)))
        return max(1, left // int(self._options.get("sequence_parallel", 1)))


@define
class _Tokens:
    """The parts of a sample that decide its share."""

    episode_id: str
    agent: str
    trained: int


@define
class _Row:
    sample: _Tokens
    group: str


def prepare_rows(
    rows: Sequence[Experience], step: int, *, workers: int, options: dict[str, Any]
) -> tuple[list[Experience], dict[str, float]]:
    """Return the rows with a gradient, and padding for the workers; their factors count all rows of the step.

    A step without gradients keeps one row, marked as idle.
    """
    tokens = [int(row.action_mask.sum()) for row in rows]
    # A blank row is no sequence, and one without trained tokens has no row.
    known = {
        place: _Row(_Tokens(row.info[EPISODE], row.info[AGENT], tokens[place]), row.info[GROUP])
        for place, row in enumerate(rows)
        if row.info[EPISODE]
    }
    by_group = {row.info[GROUP]: row.info.get(UNTRAINED, 0) for row in rows}
    untrained = [_Row(_Tokens(str(number), "", 0), "") for number in range(sum(by_group.values()))]
    mode = cast("Aggregation", options["loss_agg_mode"])
    counted: Any = [*known.values(), *untrained]
    shares = dict(zip(known, compute_token_shares(counted, mode, int(options["max_response_length"])), strict=False))
    rate = compute_learning_rate(
        step,
        lr=options["lr"],
        warmup_steps=options["lr_warmup_steps"],
        schedule=options["lr_scheduler_type"],
        total_steps=options["total_steps"],
    )
    with_signal = [place for place, row in enumerate(rows) if tokens[place] and _has_signal(row)]
    # In our loss, the reference's divergence without any signal makes no step (`astuner.runs.training.signal`).
    every_row = options["every_row"] and (bool(with_signal) or not options.get("needs_advantage"))
    live = [place for place, count in enumerate(tokens) if count] if every_row else with_signal
    idle = not live
    kept = live or [min(range(len(rows)), key=lambda place: len(rows[place].tokens))]
    chosen = [(rows[place], 0.0 if idle else shares[place]) for place in kept]
    if idle and not tokens[kept[0]]:
        # It has no effect, but some of Trinity's algorithms divide by the number of a batch's tokens.
        rows[kept[0]].action_mask = torch.ones_like(rows[kept[0]].action_mask)
    shortest = min(kept, key=lambda place: len(rows[place].tokens))
    chosen += [(_make_padding(rows[shortest]), 0.0) for _ in range(-len(chosen) % workers)]
    found = []
    longest = max(len(row.action_mask) for row, _ in chosen)
    streams = STREAMS if options.get("streams") else ()
    for number, (row, share) in enumerate(chosen):
        row.info |= {SHARE: share, STALE: float(row.info[VERSION] < step - 1), RATE: rate, IDLE: float(idle)}
        row.info |= {ROW: NO_ROW if idle or number >= len(kept) else number, STEP: step}
        row.info |= {name: _pad(row.info.get(name, ""), longest) for name in streams}
        row.custom_fields = [*FIELDS, *(CustomField(name, name, torch.float32) for name in streams)]
        found.append(row)
    lags = [max(0, step - 1 - row.info[VERSION]) for row, count in zip(rows, tokens, strict=True) if count]
    metrics = {
        f"{MEASURED}rows": float(sum(count > 0 for count in tokens)),
        f"{MEASURED}rows_trained": float(len(live)),
        f"{MEASURED}tokens_trained": float(sum(tokens[place] for place in live)),
        f"{MEASURED}tokens_computed": float(sum(len(row.tokens) for row in found)),
        f"{MEASURED}rate": rate,
        f"{MEASURED}idle": float(idle),
        f"{MEASURED}lag_mean": sum(lags) / len(lags) if lags else 0.0,
        f"{MEASURED}lag_max": float(max(lags, default=0)),
    }
    return found, metrics


def record_owners(directory: Path, step: int, rows: Sequence[Experience]) -> None:
    """Write whose tokens the rows of a step train, for the record alone: no step fails if that fails."""
    owners = [
        RowOwner(episode=row.info[EPISODE], sample=row.info.get(SAMPLE, 0), tokens=int(row.action_mask.sum()))
        for row in rows
        if row.info[ROW] != NO_ROW
    ]
    try:
        write_owners(directory, step, owners)
    except OSError as error:
        print(f"trained tokens are not recorded: {error}", file=sys.stderr)


def check_one_step(rows: Sequence[Experience]) -> None:
    """Raise `RuntimeError` for rows of several explorer steps."""
    steps = {row.info.get(STAMP) for row in rows}
    if len(steps) > 1:
        raise RuntimeError(
            f"rows of {len(steps)} explorer steps came out of the buffer as one: rows of a step were left out, or others were "
            "written between them. Read from a table that one run has written whole, or train over a queue (mode both)"
        )


def _has_signal(row: Experience) -> bool:
    """Whether some token counts in some term of the loss."""
    weights = [row.info[name] for name in STREAMS if name in row.info and name != "reference"]
    return any(unpack_floats(text).any() for text in weights) or (
        row.advantages is not None and bool((row.advantages != 0).any())
    )


def _pad(packed: str, length: int) -> list[float]:
    """Return numbers of the places of an answer as Trinity makes a column of them: as many for all rows."""
    values = unpack_floats(packed).tolist()
    return [*values, *[0.0] * (length - len(values))]


def _make_padding(row: Experience) -> Experience:
    """Return a row that trains nothing in any loss, and is never compared with others."""
    found = copy.copy(row)
    found.eid = EID(batch=row.eid.batch, task="padding")
    found.info, found.metrics = dict(row.info), {}
    found.reward = None if row.reward is None else 0.0
    for name in ("action_mask", "advantages", "returns", "token_level_reward"):
        if (values := getattr(row, name)) is not None:
            setattr(found, name, torch.zeros_like(values))
    return found
