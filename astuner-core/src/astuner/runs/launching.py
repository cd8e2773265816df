"""Runs from Python: in a script, a notebook or a sweep. The same checks and the same results as the command line."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import UsageError
from astuner.runs.inspection.run import Run

if TYPE_CHECKING:
    from astuner.contract.schema import Split
    from astuner.runs.driver.control import StopSwitch
    from astuner.runs.driver.run_outcome import RunOutcome
    from astuner.runs.driver.run_request import RunRequest

Overrides = Mapping[str, Any] | Sequence[str]

_ONE_RUN = threading.Lock()
"""A process has one environment, one `sys.path` and one set of signal handlers."""


def run(
    conf: str | os.PathLike[str],
    overrides: Overrides = (),
    *,
    backbone: str | None = None,
    resume: bool = False,
    resume_from: int | str | None = None,
    accept_changes: Collection[str] = (),
    fresh: bool = False,
    services: Sequence[str] = (),
) -> Run:
    """Train as `astuner run` does, and return the run when it is over; raises an `AstunerError` when it failed.

    `overrides` are keys and values, `{"rollout.temperature": 0.7}`, or texts as `--set` takes them. The other arguments are the
    command's options. Where an event loop is running, as in a notebook, the run has its own thread; an interrupt stops
    it as Ctrl-C stops the command.
    """
    from astuner.runs.driver.launch import start_run
    from astuner.runs.driver.run_request import RunRequest

    request = RunRequest(
        conf=Path(conf),
        backbone=backbone,
        overrides=list_items(overrides),
        resume=resume,
        resume_from=None if resume_from is None else str(resume_from),
        accept_changes=accept_changes,
        fresh=fresh,
        services=services,
    )
    return _play(request, lambda switch: start_run(request, switch))


def evaluate(
    conf: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str] | None = None,
    overrides: Overrides = (),
    *,
    backbone: str | None = None,
    services: Sequence[str] = (),
) -> Run:
    """Run the validation pass alone as `astuner eval` does, of `model.path` or of a checkpoint, and return its run."""
    from astuner.runs.driver.launch import evaluate_run
    from astuner.runs.driver.run_request import RunRequest

    weights = None if checkpoint is None else Path(checkpoint).resolve()
    if weights is not None and not weights.is_dir():
        raise UsageError(f"{checkpoint}: there is no such checkpoint")

    request = RunRequest(conf=Path(conf), backbone=backbone, overrides=list_items(overrides), services=services)
    return _play(request, lambda switch: evaluate_run(request, weights, switch))


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
) -> Any:
    """Score the stored episodes of a run again as `astuner replay` does, and return a report of what changed.

    The arguments are those of the command; messages are in the report, and Python warnings. With `train_from` the run that was
    trained on is `Run(report.directory)`. Raises `ImportError` if the package with the command is not installed.
    """
    from astuner.settings.plugins.functions import load_function

    try:
        function = load_function("replay", "astuner.replay: the command `astuner replay`")
    except UsageError as error:
        raise ImportError(str(error)) from error
    return function(run, conf, overrides, judge=judge, out=out, split=split, step=step, train_from=train_from)


def _play(request: RunRequest, start: Callable[[StopSwitch], RunOutcome]) -> Run:
    from astuner.runs.driver.control import StopSwitch, call_without_loop

    switch = StopSwitch()

    def play() -> RunOutcome:
        with hold_process(request.conf):
            check_environment(request.conf, request.overrides, request.backbone)
            return start(switch)

    outcome = call_without_loop(play, switch)
    print(outcome.format_end(), file=sys.stderr, flush=True)
    return Run(outcome.directory)


@contextmanager
def hold_process(conf: Path) -> Iterator[None]:
    """Have the process for a run alone, and leave it as it was; raises `UsageError` if another run has it."""
    from astuner.episodes.containment.process_state import restore_process_state

    if not _ONE_RUN.acquire(blocking=False):
        raise UsageError("a run is under way in this process: wait for its end, or start this one in another process")
    try:
        with restore_process_state(conf.absolute().parent):
            yield
    finally:
        _ONE_RUN.release()


def check_environment(conf: Path, items: Sequence[str], backbone: str | None) -> None:
    """Raise `UsageError` if the backbone has an environment that the command would continue in."""
    from astuner.settings.planning.own_venv import find_venv_of

    directory = find_venv_of(conf, items, backbone, lambda text: print(text, file=sys.stderr))
    if directory is not None:
        raise UsageError(
            f"this backbone has its own environment: start Python there, {directory / 'bin/python'}, or use the "
            "command `astuner run`, which continues there"
        )


def list_items(overrides: Overrides) -> list[str]:
    """Return overrides as texts of `--set`; raises `UsageError` for a value that is none of YAML."""
    if not isinstance(overrides, Mapping):
        return list(overrides)
    items = []
    for key, value in overrides.items():
        try:
            items.append(f"{key}={json.dumps(value, ensure_ascii=False, default=_make_plain)}")
        except (TypeError, ValueError) as error:
            raise UsageError(f"overrides: {key}: {value!r} is not a value of YAML: {error}") from error
    return items


def _make_plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    # NumPy's scalars and arrays, in sweeps.
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"it is a {type(value).__name__}")
