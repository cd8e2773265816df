"""Playing the stages of a file in their order, and going on with those that are not finished."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from attrs import evolve

from astuner.contract.errors import ConfigError, Interrupted, SeveralStages, UsageError
from astuner.episodes.containment.process_state import restore_process_state
from astuner.runs.driver.control import StopSwitch, unwind_on_sigterm
from astuner.runs.driver.launch import format_resume_command, start_run
from astuner.runs.driver.resume import check_same_run, is_same_length
from astuner.runs.driver.run_outcome import RunOutcome
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.store.atomic import write_directory
from astuner.runs.store.checkpoints import check_intact, find_better_step, find_checkpoint
from astuner.runs.store.directory import RunDirectory
from astuner.settings.planning.service_choice import check_names
from astuner_tools.stages.demonstration_run import train_on_demonstrations
from astuner_tools.stages.planned_stage import PlannedStage, name_problems, plan_stages

if TYPE_CHECKING:
    from astuner.contract.protocols import Backbone

HANDED_OVER = "handed_over"
"""Key of a stage's `state.json`: the checkpoint whose model is in its folder `model`."""


def play_stages(several: SeveralStages, request: RunRequest, switch: StopSwitch | None = None) -> RunOutcome:
    """Play every stage that is not finished, and return the outcome of the last; one that fails or is stopped ends the sequence.

    All of them are checked first. `switch` lets another thread stop the one that is under way.
    """
    if request.resume_from is not None:
        raise UsageError(
            f"--resume-from {request.resume_from}: a step belongs to one stage, and those after it began with its end. "
            "Continue with --resume"
        )
    stages = plan_stages(several, request.conf, request.overrides, request.backbone)
    for stage in stages:
        check_names(request.services, stage.plan.run_info(), stage.plan.catalog)
    due = _choose_due(stages, several, request)
    outcome = None
    for stage in stages:
        if stage not in due:
            _say(f"{stage.title}: finished earlier, {stage.directory.path}")
            continue
        if outcome is not None:
            _say(outcome.format_end())
        _say(stage.title)
        with unwind_on_sigterm(), _explain_stop(stage, request, switch):
            if stage.follows:
                hand_over(stages[stage.number - 2])
            outcome = _play(stage, request, switch)
    assert outcome is not None
    return outcome


def _choose_due(stages: Sequence[PlannedStage], several: SeveralStages, request: RunRequest) -> list[PlannedStage]:
    """Return the stages that are not finished; raises `UsageError` or `ConfigError` if they cannot be begun or continued."""
    due: list[PlannedStage] = []
    for stage in stages:
        directory = stage.directory
        if not stage.has_begun:
            due.append(stage)
            continue
        finished = directory.state.get("status") == "finished"
        if not request.resume:
            raise UsageError(
                f"{directory.path}: already holds a run of {stage.title} ({directory.state.get('status') or 'unfinished'}); "
                f"continue with --resume, or choose another experiment_name (--set experiment_name=...)"
            )
        try:
            new = stage.demonstrations is not None and stage.demonstrations.tiny
            apart_from = ("model.path",) if stage.follows or new else ()
            check_same_run(directory, stage.plan, apart_from=apart_from, accepted=request.accept_changes)
        except ConfigError as error:
            raise name_problems(error, stage, several) from error
        _check_same_demonstrations(stage, directory)
        if not finished or (stage.demonstrations is None and not is_same_length(directory, stage.plan)):
            due.append(stage)
    if not due:
        raise UsageError(
            f"{stages[-1].directory.path}: all {len(stages)} stages are finished; raise trainer_common.total_training_steps of "
            "the last one to go on, or choose another experiment_name to train again"
        )
    first = stages.index(due[0])
    if due[0].directory.state.get("status") == "finished":
        begun = [stage for stage in stages[first + 1 :] if stage.has_begun]
        if begun:
            raise UsageError(
                f"{due[0].title}: is finished, and has another length now, but {begun[0].title}, has begun with its end. Put "
                "trainer_common.total_training_steps back, or choose another experiment_name"
            )
    # A stage begins with the end of the one before, which is not known yet.
    return [stage for stage in stages[first:] if stage in due]


def _check_same_demonstrations(stage: PlannedStage, directory: RunDirectory) -> None:
    before = directory.run.get("demonstrations")
    now = stage.demonstrations.sign(stage.plan.loaded.path) if stage.demonstrations is not None else None
    if before == now:
        return
    if before is None or now is None:
        what = "played episodes" if before is None else "trained on demonstrations"
        changed = f"it {what} when it was started"
    else:
        keys = [key for key in now if before.get(key) != now[key]]
        changed = ", ".join(f"{key} was {before.get(key)!r:.20} and is {now[key]!r:.20}" for key in keys)
    raise UsageError(
        f"stages[{stage.number - 1}].demonstrations: {changed}; a resumed stage keeps them. Put them back, or start a new run "
        "with another experiment_name"
    )


def _play(stage: PlannedStage, request: RunRequest, switch: StopSwitch | None) -> RunOutcome:
    own = evolve(request, overrides=stage.overrides)
    with restore_process_state(request.conf.absolute().parent):
        if stage.demonstrations is not None:
            return train_on_demonstrations(stage, own, lambda text: _report(text, switch))
        return start_run(own, switch, format_resume_command(request))


def hand_over(stage: PlannedStage) -> None:
    """Write the model that a stage ended with, its best or last checkpoint with adapters merged; nothing if it is there.

    The backbone writes it, as for `astuner export`. Nothing is written for a stage that trains nothing.
    """
    directory, out = stage.directory, stage.model
    if stage.demonstrations is not None or not stage.trains:
        return
    chosen = find_end(directory, keeps_best=stage.plan.loaded.config.trainer_common.keep_best is not False)
    if directory.state.get(HANDED_OVER) == chosen.name and out.is_dir():
        return
    from astuner.settings.plugins.drivers import construct, load

    directory.open()
    try:
        shutil.rmtree(out, ignore_errors=True)
        check_intact(chosen, [directory.checkpoint(step) for step in directory.list_saved_steps()])
        candidate = stage.plan.backbone.candidate
        backbone = cast("Backbone", construct(candidate, load(candidate), None, None))
        with write_directory(out) as made:
            backbone.export(chosen, made, merge_lora=True, dtype=None)
        directory.write_state(**{HANDED_OVER: chosen.name})
    finally:
        directory.close()
    _say(f"  {chosen} is what the next stage begins with, as {out}")


def find_end(directory: RunDirectory, *, keeps_best: bool) -> Path:
    """Return the checkpoint that a stage ends with: its last, or its best if that was better."""
    better = find_better_step(directory) if keeps_best else None
    return find_checkpoint(directory, "last" if better is None else str(better))


@contextmanager
def _explain_stop(stage: PlannedStage, request: RunRequest, switch: StopSwitch | None) -> Iterator[None]:
    """Say how to go on when the sequence is stopped where no run is under way that would say it."""
    try:
        _report("", switch)
        yield
    except KeyboardInterrupt as stopped:
        raise Interrupted(f"stopped in {stage.title}; continue with: {format_resume_command(request)}") from stopped


def _report(text: str, switch: StopSwitch | None) -> None:
    if switch is not None and switch.requested:
        raise KeyboardInterrupt
    if text:
        _say(text)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
