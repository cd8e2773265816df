"""The metrics of a run as a file: one flat JSON object per training step and per validation."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import LoggerTraits, RunInfo
from astuner.contract.schema import Group
from astuner.runs.store.atomic import explain_os_errors, write_text
from astuner.shared.private_files import open_private

_NO_ROW = (ValueError, LookupError, TypeError, OverflowError, RecursionError)


class JsonlLogger:
    """Appends to `metrics.jsonl` in the run directory; a row is on disk before the next step begins.

    Rows have `step` and `kind`: `validation` for those of `val/…` metrics, `train` for all others. Non-finite numbers are
    written as null, since JSON cannot represent them.
    """

    traits = LoggerTraits(truncates=True)

    def __init__(self, path: Path) -> None:
        self._path = path
        with explain_os_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open_private(path, "ab")
        self._drop_half_a_row()

    @classmethod
    def from_run(cls, options: Any, run_info: RunInfo) -> JsonlLogger:
        """Make the logger of a run; it has no options."""
        return cls(run_info.directory / "metrics.jsonl")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the metrics: one row, or two when those of a step and of a validation come together."""
        rows = "".join(_encode_row(step, kind, part) for kind, part in _split_by_kind(metrics))
        with explain_os_errors(self._path):
            self._file.write(rows.encode())
            self._file.flush()
            os.fsync(self._file.fileno())

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write nothing: the run store keeps the episodes."""

    def truncate_after(self, step: int) -> None:
        """Drop the rows of later steps, for a run that resumes from the checkpoint of `step`."""
        self._file.close()
        kept: list[bytes] = []
        later = False
        with explain_os_errors(self._path):
            lines = self._path.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            try:
                is_kept = int(json.loads(line.decode())["step"]) <= step
            except _NO_ROW as error:
                # Rows come in the order of their steps.
                if later:
                    continue
                text = line[:80].decode(errors="replace")
                raise RunFailed(
                    f"{self._path}:{number}: not a row of metrics: {text!r}; it is damaged, remove the line to resume"
                ) from error
            later |= not is_kept
            if is_kept:
                kept.append(line)
        write_text(self._path, b"".join(kept).decode())
        with explain_os_errors(self._path):
            self._file = open_private(self._path, "ab")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _drop_half_a_row(self) -> None:
        """Remove the partial row that a crash left after the last complete row."""
        with explain_os_errors(self._path):
            content = self._path.read_bytes()
            if content and not content.endswith(b"\n"):
                self._file.truncate(content.rfind(b"\n") + 1)


def _split_by_kind(metrics: Mapping[str, float]) -> list[tuple[str, dict[str, float]]]:
    validation = {name: value for name, value in metrics.items() if name.startswith("val/")}
    if not validation:
        return [("train", dict(metrics))]
    # A validation may have numbers without the prefix, such as its time; a training step always has one of these.
    if not any(name.startswith(("reward/", "signal/", "loss/")) for name in metrics):
        return [("validation", dict(metrics))]
    return [("train", {name: metrics[name] for name in metrics if name not in validation}), ("validation", validation)]


def _encode_row(step: int, kind: str, metrics: Mapping[str, float]) -> str:
    numbers = {name: _drop_non_finite(value) for name, value in metrics.items() if name != "step"}
    return json.dumps({"step": int(step), "kind": kind, **numbers}, ensure_ascii=False, allow_nan=False) + "\n"


def _drop_non_finite(value: Any) -> int | float | None:
    if isinstance(value, int):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None
