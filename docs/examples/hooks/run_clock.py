"""Listens to the beginning and the end of a run: prints how long it took, and how it ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from astuner import hookimpl
from astuner.contract.protocols import RunInfo


class RunClock:
    def __init__(self) -> None:
        self._began = 0.0

    @hookimpl
    def astuner_run_started(self, run_info: RunInfo, plugins: Sequence[Mapping[str, str]]) -> None:
        self._began = time.monotonic()
        judges = [f"{row['name']} ({row['distribution']})" for row in plugins if row["kind"] == "judge"]
        print(f"run_clock: {run_info.experiment_name} begins; judges: {', '.join(judges) or 'none'}", file=sys.stderr)

    @hookimpl
    def astuner_run_finished(self, run_info: RunInfo, exit_code: int) -> None:
        took_s = time.monotonic() - self._began
        print(f"run_clock: {run_info.experiment_name} ended with {exit_code} after {took_s:.0f} s", file=sys.stderr)
