"""Training on from a checkpoint of a run with the rewards of a replay: a resume, in the directory of the replay."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from astuner.contract.errors import UsageError
from astuner.runs.driver.launch import start_run
from astuner.runs.driver.resume import check_same_run
from astuner.runs.driver.run_outcome import RunOutcome
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.inspection.run import Run
from astuner.runs.store.checkpoints import check_intact, forget_validations
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.loading import load_config
from astuner.settings.config.places import ROOT
from astuner.settings.planning.plan import plan_run

if TYPE_CHECKING:
    from astuner.runs.driver.control import StopSwitch
    from astuner_tools.replays.replay_request import ReplayRequest

SCORING = (
    "experiment_name",
    "task_judge",
    "rollout.failure_rewards",
    "rollout.agent_madness_reward",
    "trainer_common.algorithm",
)
"""Keys that may differ from the run's; the others are those that a resume compares."""


def refuse_choices(request: ReplayRequest) -> None:
    """Raise `UsageError` for an option of a replay with which it could not be trained on."""
    for name in ("judge", "split", "step"):
        if getattr(request, name) is not None:
            raise UsageError(f"--{name}: --train-from needs every episode, scored by the judges of the YAML; leave --{name} out")


def check_start(request: ReplayRequest, step: int) -> None:
    """Raise an `AstunerError` if a run cannot go on from a step with the configuration of a replay, before any judge is paid.

    It takes a whole checkpoint of the step, and the run's own values of all keys that are not about scores.
    """
    run = request.run
    saved = run.directory.list_saved_steps()
    if step and step not in saved:
        there = f"there are those of steps {', '.join(map(str, saved))}" if saved else "there is none"
        raise UsageError(f"--train-from {step}: {run.path} has no checkpoint of this step; {there}, and 0 begins with model.path")
    if run.directory.read_config() is None or not run.facts.get("sources"):
        raise UsageError(f"--train-from {step}: {run.path} does not say what it was made from, so it cannot go on from there")
    if step:
        check_intact(run.directory.checkpoint(step))
    plan = plan_run(request.conf, request.overrides)
    check_same_run(run.directory, plan, apart_from=SCORING)
    plan.check_memory()


def train_on(request: ReplayRequest, replay: Path, step: int, switch: StopSwitch | None = None) -> RunOutcome:
    """Continue a run from its checkpoint of a step, 0 for its start, in the directory `replay`, and with the new rewards.

    The stored episodes after the step are used again, as a resume does; the run itself stays as it is. `switch` lets another
    thread stop the training.
    """
    directory = RunDirectory(replay)
    directory.open()
    try:
        _prepare(request.run, directory, step, load_config(request.conf, request.overrides).resolved)
    finally:
        directory.close()
    there = f"experiment_dir={yaml.safe_dump(str(replay), width=1 << 20).splitlines()[0]}"
    return start_run(RunRequest(conf=request.conf, overrides=(*request.overrides, there), resume=True), switch)


def _prepare(run: Run, directory: RunDirectory, step: int, new: Mapping[str, Any]) -> None:
    """Make a replay look like the run when it had saved the step."""
    if step:
        shutil.copytree(run.directory.checkpoint(step), directory.checkpoint(step))
    record = run.directory.read_config() or {}
    resolved = dict(record["resolved"])
    for key in SCORING:
        resolved[ROOT] = _put(resolved[ROOT], key.split("."), _get(new, key.split(".")))
    directory.write_config(
        given=record["given"],
        resolved=yaml.safe_dump(resolved),
        native=record["native"],
        environment=record.get("environment"),
        relative_to=record.get("relative_to"),
    )
    # The code is not compared with the run's: a new judge has scored what the store holds.
    sources = {name: found for name, found in run.facts["sources"].items() if name != "code"}
    kept = {name: value for name, value in run.facts.items() if name not in ("attempts", "checksum")}
    directory.amend_run(**kept | {"sources": sources})
    validations = run.directory.state.get("validations", {})
    directory.write_state(status="interrupted", step=step, validations=validations)
    forget_validations(directory, after=step)


def _get(tree: Mapping[str, Any], path: Sequence[str]) -> Any:
    return tree[path[0]] if len(path) == 1 else _get(tree[path[0]], path[1:])


def _put(tree: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a tree with another value at a path."""
    return {**tree, path[0]: value if len(path) == 1 else _put(tree[path[0]], path[1:], value)}
