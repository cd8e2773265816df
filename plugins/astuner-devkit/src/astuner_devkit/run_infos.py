"""A component's view of its run, for tests that make components by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import evolve

from astuner.contract.protocols import RunInfo
from astuner.settings.config.model import Config


def run_info(home: Path, /, **changes: Any) -> RunInfo:
    """Return a run with its YAML in `home` and its directory in `home/run`; `changes` are fields of it."""
    plain = RunInfo(
        project_name="project",
        experiment_name="experiment",
        backbone="debug",
        directory=home / "run",
        config_dir=home,
        seed=7,
        config=Config(),
    )
    return evolve(plain, **changes)
