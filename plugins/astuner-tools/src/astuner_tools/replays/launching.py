"""`astuner.replay` of the Python API."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from astuner.runs.driver.control import StopSwitch, call_without_loop
from astuner.runs.inspection.run import Run
from astuner.runs.inspection.run_search import open_run
from astuner.runs.launching import Overrides, check_environment, hold_process, list_items
from astuner_tools.replays.replay import replay_run
from astuner_tools.replays.replay_request import ReplayRequest
from astuner_tools.replays.training_on_replay import check_start, refuse_choices, train_on

if TYPE_CHECKING:
    from astuner.contract.schema import Split
    from astuner_tools.replays.report import ReplayReport


def replay(
    run: Run | str | os.PathLike[str],
    conf: str | os.PathLike[str],
    overrides: Overrides = (),
    *,
    judge: str | None = None,
    out: str | os.PathLike[str] | None = None,
    split: Split | None = None,
    step: int | None = None,
    train_from: int | None = None,
) -> ReplayReport:
    """Score the stored episodes of a run again; the arguments are those of `astuner.runs.launching.replay`."""
    opened = run if isinstance(run, Run) else open_run(os.fspath(run))
    request = ReplayRequest(
        run=opened,
        conf=Path(conf),
        overrides=list_items(overrides),
        judge=judge,
        out=None if out is None else Path(out),
        split=split,
        step=step,
    )
    switch = StopSwitch()

    def score() -> ReplayReport:
        with hold_process(request.conf):
            if train_from is not None:
                refuse_choices(request)
                check_environment(request.conf, request.overrides, None)
                check_start(request, train_from)
            report = replay_run(request, notify=lambda text: warnings.warn(text, stacklevel=2), stopped=lambda: switch.requested)
            if train_from is not None:
                train_on(request, report.directory, train_from, switch)
            return report

    return call_without_loop(score, switch)
