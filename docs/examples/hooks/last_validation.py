"""Listens: writes the last validation to a small file, for a dashboard or a shell prompt."""

from __future__ import annotations

import json
from pathlib import Path

from astuner import hookimpl
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import ValidationReport


class LastValidation:
    def __init__(self) -> None:
        self._file: Path | None = None

    @hookimpl
    def astuner_run_started(self, run_info: RunInfo) -> None:
        self._file = run_info.directory / "last_validation.json"

    @hookimpl
    def astuner_validation_finished(self, report: ValidationReport) -> None:
        if self._file is not None:
            self._file.write_text(json.dumps({"step": report.step, **report.metrics}), encoding="utf-8")
