"""What the trainer recorded of each token, if the run has it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from astuner.contract.schema import Episode
from astuner.runs.store.token_store import TokenColumns, TokenStore, TrainedTokens

FOLDER = Path("episodes") / "signal"
NOT_RECORDED = "the run has no record of what its trainer computed for tokens (trainer_common.token_record)"
MEASURES: Mapping[str, str] = {
    "logprobs": "trainer_logprob",
    "entropies": "entropy",
    "reference_logprobs": "ref_logprob",
    "ratios": "ratio",
    "advantages": "advantage",
    "rl": "rl",
    "ce": "ce",
    "ref_kl": "ref_kl",
}
"""The measures that columns of the record are."""


@frozen(kw_only=True, eq=False)
class CallValues:
    """The numbers of a call's sampled tokens; NaN where a token has none."""

    values: Mapping[str, NDArray[Any]]
    """By measure."""
    clipped: NDArray[Any] | None


@frozen(kw_only=True)
class TrainerRecord:
    """What is recorded of an episode."""

    calls: Mapping[int, CallValues]
    text: str = NOT_RECORDED
    """What is recorded, or why nothing is."""


def describe_record(run: Path) -> dict[str, int] | None:
    """Return the number of steps with a record and its size in bytes; None without one."""
    try:
        sizes = [file.stat().st_size for file in (run / FOLDER).glob("step_*.npz")]
    except OSError:
        return None
    return {"steps": len(sizes), "bytes": sum(sizes)} if sizes else None


@define(eq=False)
class TrainerRecords:
    """Reads records, and keeps the last steps. Threads may share it."""

    most: int = 2
    _steps: OrderedDict[tuple[Path, int, int, int], TrainedTokens | None] = field(factory=OrderedDict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def sign(self, run: Path, episode: str) -> tuple[int, int]:
        """Return what changes with the record of an episode's step."""
        try:
            found = (run / FOLDER / f"step_{int(episode.split('/')[1])}.npz").stat()
        except (OSError, ValueError, IndexError):
            return (0, 0)
        return found.st_mtime_ns, found.st_size

    def read(self, run: Path, episode: Episode) -> TrainerRecord:
        """Return what the trainer recorded of an episode's tokens; empty if that is nothing."""
        if episode.split != "train":
            return TrainerRecord(calls={}, text="nothing is trained on a validation")
        record = describe_record(run)
        if record is None:
            return TrainerRecord(calls={})
        changed, size = self.sign(run, episode.id)
        if not size:
            return TrainerRecord(calls={}, text=f"the run has no record of step {episode.step}")
        step = self._read_step(run, episode.step, changed, size)
        if step is None:
            return TrainerRecord(calls={}, text=f"the record of step {episode.step} is damaged")
        calls = {call.index: found for call in episode.calls if (found := _convert(step.of(episode.id, call))) is not None}
        text = f"recorded of step {episode.step}" if calls else f"no token of this episode was trained in step {episode.step}"
        return TrainerRecord(calls=calls, text=text)

    def _read_step(self, run: Path, step: int, changed: int, size: int) -> TrainedTokens | None:
        key = (run, step, changed, size)
        with self._lock:
            if key not in self._steps:
                self._steps[key] = TokenStore(run / FOLDER).read(step)
                while len(self._steps) > self.most:
                    self._steps.popitem(last=False)
            return self._steps[key]


def _convert(columns: TokenColumns | None) -> CallValues | None:
    if columns is None:
        return None
    found = {measure: np.asarray(getattr(columns, name), np.float32) for name, measure in MEASURES.items()}
    known = {measure: values for measure, values in found.items() if np.isfinite(values).any()}
    clips = np.where(np.isfinite(found["trainer_logprob"]), columns.clips, 0)
    return CallValues(values=known, clipped=clips)
