"""A run made up on disk, and the configurations that score it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.runs.inspection.run import Run
from astuner_devkit.isolation import undo_after
from astuner_devkit.project import write_project
from astuner_tools.replays.replay import replay_run
from astuner_tools.replays.replay_request import ReplayRequest
from astuner_tools.replays.report import ReplayReport

Replay = Callable[..., ReplayReport]


@pytest.fixture
def replay(tmp_path: Path, own_state: Path) -> Any:
    """Scores a run again: `replay(path, "./judge.py:Mine", settings={…}, step=1)`; the second is the judge of the YAML."""

    def score(
        path: Path,
        protocol: str | None = None,
        *,
        settings: Any = None,
        overrides: Any = (),
        stopped: Any = lambda: False,
        **more: Any,
    ) -> ReplayReport:
        conf = write_project(tmp_path, protocol, settings=settings, name="new")
        return replay_run(ReplayRequest(run=Run(path), conf=conf, overrides=overrides, **more), stopped=stopped)

    with undo_after(tmp_path):
        yield score
