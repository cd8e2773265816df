"""Starting, resuming and evaluating a run: from a YAML to an exit code; everything is closed on every path."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from pathlib import Path

from astuner.breakpoints.selection import load_debugger, select_breakpoints, split_tags
from astuner.contract.errors import SeveralStages
from astuner.episodes.containment.process_streams import keep_streams
from astuner.runs.driver.control import StopSwitch, unwind_on_sigterm
from astuner.runs.driver.run_directories import choose_directory, delete_leftovers, is_throwaway
from astuner.runs.driver.run_outcome import RunOutcome
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.driver.run_session import RunSession
from astuner.runs.driver.start_step import StartStep, choose_start
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.secrets import redact_command
from astuner.settings.planning.plan import Plan, plan_run
from astuner.shared.exhaustion import explain_exhaustion
from astuner.shared.processes.program_record import ProgramRecord
from astuner.shared.processes.program_registry import register_run


def start_run(request: RunRequest, switch: StopSwitch | None = None, resume_command: str | None = None) -> RunOutcome:
    """Train, and return when the run is over; raises an `AstunerError` that says why when it failed or was interrupted.

    `switch` lets another thread stop the run; `resume_command` continues it, if not the one that starts it. Of a file with
    stages each is a run, and the outcome is that of the last.
    """
    try:
        return _start_one(request, switch, resume_command or format_resume_command(request))
    except SeveralStages as found:
        stages = found
    from astuner.settings.plugins.functions import load_function

    outcome: RunOutcome = load_function("play_stages", "stages: what plays them")(stages, request, switch)
    return outcome


def _start_one(request: RunRequest, switch: StopSwitch | None, resume_command: str) -> RunOutcome:
    with ExitStack() as stack:
        stack.enter_context(explain_exhaustion())
        stack.enter_context(keep_streams())
        stack.enter_context(unwind_on_sigterm())
        if tags := split_tags(request.stop_at):
            load_debugger()
        breakpoints = stack.enter_context(select_breakpoints(tags))
        plan = plan_run(request.conf, request.overrides, request.backbone)
        _check_services(request, plan)
        narrow = plan.check_memory()
        directory = RunDirectory(choose_directory(plan))
        record = _hold_directory(directory, plan, stack)
        if is_throwaway(plan) and not request.resumes:
            delete_leftovers(directory)
        accepted, back_to = request.accept_changes, request.resume_from
        start = choose_start(directory, plan, resume=request.resumes, resume_from=back_to, accepted=accepted)
        if not start.resumed:
            directory.metrics.unlink(missing_ok=True)
            if directory.trained_tokens.exists():
                from astuner.runs.store.token_store import TokenStore

                TokenStore(directory.trained_tokens).truncate_after(0)
        session = RunSession(
            plan,
            directory,
            start,
            request=request,
            stack=stack,
            record=record,
            breakpoints=breakpoints,
            resume_command=resume_command,
        )
        if switch is not None:
            switch.connect(session.control)
        for text in narrow:
            session.notify(text)
        return session.execute(lambda run, backbone, tasks: backbone.train(run.info, tasks, plan.recipe, run.control))


def evaluate_run(request: RunRequest, checkpoint: Path | None = None, switch: StopSwitch | None = None) -> RunOutcome:
    """Run the validation pass alone, of `model.path` or of a checkpoint, in its own directory next to the run's."""
    plan = plan_run(request.conf, request.overrides, request.backbone, trains=False)
    _check_services(request, plan)
    path = Path(plan.loaded.config.experiment_dir)
    directory = RunDirectory(path.with_name(f"{path.name}.eval"))
    with ExitStack() as stack:
        stack.enter_context(keep_streams())
        stack.enter_context(unwind_on_sigterm())
        record = _hold_directory(directory, plan, stack)
        delete_leftovers(directory)
        if checkpoint is not None:
            from astuner.runs.store.checkpoints import check_intact

            check_intact(checkpoint)
        session = RunSession(plan, directory, StartStep(), request=request, stack=stack, record=record)
        if switch is not None:
            switch.connect(session.control)
        return session.execute(
            lambda run, backbone, tasks: backbone.evaluate(run.info, tasks, plan.recipe, checkpoint, run.control)
        )


def _check_services(request: RunRequest, plan: Plan) -> None:
    if request.services:
        from astuner.settings.planning.service_choice import check_names

        check_names(request.services, plan.run_info(), plan.catalog)


def _hold_directory(directory: RunDirectory, plan: Plan, stack: ExitStack) -> ProgramRecord:
    """Take the lock of a run's directory, and list this process as the run."""
    directory.open()
    stack.callback(directory.close)
    facts = {"backbone": plan.backbone.candidate.name, "experiment_name": plan.loaded.config.experiment_name}
    return stack.enter_context(register_run(directory.path.name, directory.path, facts=facts))


def format_resume_command(request: RunRequest) -> str:
    """Return what to type in the same directory. A secret that `--set` gave is not in it."""
    command = ["astuner", "run", "--conf", str(request.conf)]
    command += ["--backbone", request.backbone] if request.backbone else []
    for flag, values in (("--set", request.overrides), ("--with", request.services), ("--db", request.stop_at)):
        for value in values:
            command += [flag, value]
    return shlex.join(redact_command([*command, "--resume"]))
