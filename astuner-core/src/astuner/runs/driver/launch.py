"""Starting, resuming and evaluating a run: from a YAML to an exit code; everything is closed on every path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attrs import evolve, frozen

from astuner.breakpoints.code_places import name_place
from astuner.breakpoints.selection import NO_BREAKPOINTS, BreakpointSelection, select_breakpoints, split_tags
from astuner.breakpoints.stopping import TIME_LIMITS_OFF, connect_run, expects_stops, remove_time_limits
from astuner.contract.errors import AstunerError, Interrupted, RunFailed
from astuner.contract.protocols.optional import ReportsProgress, Truncates, find_offer
from astuner.contract.schema import Event, Group, Notice
from astuner.episodes.containment.process_streams import keep_streams
from astuner.episodes.rollout.sampler import TaskSampler
from astuner.episodes.transcript.terminal_text import strip_colours
from astuner.runs.driver.control import RunControl, StopSwitch, stop_on_signals, unwind_on_sigterm
from astuner.runs.driver.episode_faults import EpisodeFaults
from astuner.runs.driver.event_handling import Progress, drive
from astuner.runs.driver.exhaustion import explain_exhaustion
from astuner.runs.driver.forced_end import end_by_force
from astuner.runs.driver.last_attempt import describe_last_attempt
from astuner.runs.driver.plugins_in_use import format_header, list_plugins_in_use
from astuner.runs.driver.replayed_steps import ReplayedSteps, read_step_times
from astuner.runs.driver.reporting import Loggers, NamedLogger
from astuner.runs.driver.resume_command import format_resume_command
from astuner.runs.driver.resume_preparation import prepare_resume
from astuner.runs.driver.run_directories import choose_directory, delete_leftovers, is_throwaway
from astuner.runs.driver.run_facts import collect_run_facts
from astuner.runs.driver.run_story import tell_story
from astuner.runs.driver.sources import collect_code, collect_sources
from astuner.runs.driver.start_step import StartStep, choose_start
from astuner.runs.store.checkpoints import check_intact
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.runs.store.kept_tokenizer import keep_tokenizer
from astuner.runs.store.token_store import TokenStore
from astuner.settings.planning.plan import Plan, plan_run
from astuner.settings.planning.service_choice import check_names, choose_services
from astuner.settings.plugins.run_viewers import list_run_viewers
from astuner.shared.processes.program_record import ProgramRecord
from astuner.shared.processes.program_registry import register_run

if TYPE_CHECKING:
    from astuner.contract.protocols import Backbone


@frozen(kw_only=True)
class RunOutcome:
    """How a run ended."""

    exit_code: int
    directory: Path
    before: Mapping[str, float] | None
    """Metrics of the validation before training, if there was one."""
    after: Mapping[str, float] | None
    """Metrics of the last validation."""
    before_groups: tuple[Group, ...] = ()
    after_groups: tuple[Group, ...] = ()
    story: tuple[str, ...] = ()
    """How the run went, line by line."""
    viewers: tuple[str, ...] = ()
    """Commands that show what the loggers have written, typed where the run was started."""
    run_viewers: tuple[str, ...] = ()
    """Commands of plugins that show this run: its directory is typed after them."""


def start_run(
    conf: Path,
    backbone: str | None = None,
    overrides: Sequence[str] = (),
    *,
    resume: bool = False,
    resume_from: str | None = None,
    accept_changes: Collection[str] = (),
    fresh: bool = False,
    stop_at: Sequence[str] = (),
    services: Sequence[str] = (),
    switch: StopSwitch | None = None,
) -> RunOutcome:
    """Train, and return when the run is over; raises an `AstunerError` that says why when it failed or was interrupted.

    `resume_from` continues from a step, `best` or `last`; `accept_changes` are kinds of what may have changed since
    (`driver.source_changes.KINDS`).
    `fresh` restarts servers that an earlier run has kept; `stop_at` are the tags of breakpoints, as `--db` takes them;
    `services` are names of services, as `--with` takes them; `switch` lets another thread stop the run.
    """
    with ExitStack() as stack:
        stack.enter_context(explain_exhaustion())
        stack.enter_context(keep_streams())
        stack.enter_context(unwind_on_sigterm())
        asked = stack.enter_context(select_breakpoints(split_tags(stop_at)))
        plan = plan_run(conf, overrides, backbone)
        check_names(services, plan.run_info(), plan.catalog)
        narrow = plan.check_memory()
        directory = RunDirectory(choose_directory(plan))
        directory.open()
        stack.callback(directory.close)
        record = stack.enter_context(register_run(directory.path.name, directory.path, facts=_describe_run(plan)))
        resume = resume or resume_from is not None
        if is_throwaway(plan) and not resume:
            delete_leftovers(directory)
        start = choose_start(directory, plan, resume=resume, resume_from=resume_from)
        if not start.resumed:
            directory.metrics.unlink(missing_ok=True)
            TokenStore(directory.trained_tokens).truncate_after(0)
        run = _Run(plan, directory, start=start, accepted=accept_changes, stack=stack, record=record, fresh=fresh, asked=asked)
        if switch is not None:
            switch.connect(run.control)
        run.resume_command = format_resume_command(conf, backbone, overrides, services, stop_at)
        for text in narrow:
            run.notify(text)
        run.serve(services)
        return run.execute(lambda run, backbone, tasks: backbone.train(run.info, tasks, plan.recipe, run.control))


def evaluate_run(
    conf: Path,
    checkpoint: Path | None = None,
    backbone: str | None = None,
    overrides: Sequence[str] = (),
    *,
    services: Sequence[str] = (),
    switch: StopSwitch | None = None,
) -> RunOutcome:
    """Run the validation pass alone, in its own directory next to the run's."""
    plan = plan_run(conf, overrides, backbone, trains=False)
    check_names(services, plan.run_info(), plan.catalog)
    path = Path(plan.loaded.config.experiment_dir)
    directory = RunDirectory(path.with_name(f"{path.name}.eval"))
    with ExitStack() as stack:
        stack.enter_context(keep_streams())
        stack.enter_context(unwind_on_sigterm())
        directory.open()
        stack.callback(directory.close)
        delete_leftovers(directory)
        record = stack.enter_context(register_run(directory.path.name, directory.path, facts=_describe_run(plan)))
        if checkpoint is not None:
            check_intact(checkpoint)
        run = _Run(plan, directory, start=StartStep(), stack=stack, record=record)
        if switch is not None:
            switch.connect(run.control)
        run.serve(services)
        return run.execute(lambda run, backbone, tasks: backbone.evaluate(run.info, tasks, plan.recipe, checkpoint, run.control))


def _describe_run(plan: Plan) -> dict[str, str]:
    """Return what `astuner ps` shows of a run."""
    return {"backbone": plan.backbone.candidate.name, "experiment_name": plan.loaded.config.experiment_name}


class _Run:
    """The live parts of one run."""

    def __init__(
        self,
        plan: Plan,
        directory: RunDirectory,
        *,
        start: StartStep,
        accepted: Collection[str] = (),
        stack: ExitStack,
        record: ProgramRecord,
        fresh: bool = False,
        asked: BreakpointSelection = NO_BREAKPOINTS,
    ) -> None:
        from astuner.settings.plugins.hooks import Hooks

        self._plan, self._directory, self._stack, self._record = plan, directory, stack, record
        self._secrets = plan.loaded.secrets
        stack.enter_context(self._secrets.hide_in_errors())
        config = plan.loaded.config
        self._early: list[tuple[str, Literal["info", "warning"]]] = []
        self._loggers: Loggers | None = None
        self._step_url: str | None = None
        hooks = Hooks(plan.catalog, on_listener_error=self.notify, options=config.plugins.options)
        hooks.check_pending()
        self.info = evolve(plan.run_info(attempt=directory.attempts + 1, fresh=fresh), directory=directory.path)
        if expects_stops():
            self.info = remove_time_limits(self.info)
            self.notify(TIME_LIMITS_OFF, "info")
        self._asked = asked
        self._hooks = hooks
        self._store = store = EpisodeFiles(directory.episodes, replay_after=start.replay_after, report=self.notify)
        stack.callback(store.close)
        stack.callback(self._print_early_notices)
        self.control = RunControl(
            store=store, hooks=hooks, resume_step=start.step, notify=self.notify, progress=self._show_progress
        )
        stack.enter_context(connect_run(self.control, self.control.request_stop, self.notify))
        self._start, self._accepted = start, accepted
        self.resume_command: str | None = None
        """Continues the run, if something can."""

    def serve(self, names: Sequence[str]) -> None:
        """Start the requested services: the tasks may already come from one."""
        if not names:
            return
        from astuner.shared.services.running import ServiceHost, run_services

        def say(text: str) -> None:
            # The loggers are made later, and a start may take minutes.
            with suppress(OSError):
                print(self._secrets.hide(text), file=sys.stderr, flush=True)

        hide, warn = self._secrets.hide, self.notify
        place = ServiceHost(directory=self._directory.path, say=say, warn=warn, stopped=lambda: self.control.stop, hide=hide)
        services = choose_services(names, self.info, self._plan.catalog, self._hooks)
        self._step_url = next((one.step_url for one in services.values() if one.step_url is not None), None)
        with stop_on_signals(self.control, say):
            self._stack.enter_context(run_services(services, place))

    def notify(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        """Show the user a message; until the loggers exist it waits for them."""
        text = self._secrets.hide(text)
        if self._loggers is None:
            self._early.append((text, level))
            return
        # The reader may be gone, as `tee` is after Ctrl-C, or users' code has closed the stream; the run goes on, and saves what
        # it has.
        with suppress(OSError, ValueError):
            if not self._loggers.notice(text, level):
                print(f"{level}: {text}", file=sys.stderr)
        self._hooks.notice(Notice(text=strip_colours(text), level=level))

    def _print_early_notices(self) -> None:
        """Print the messages that waited for loggers that were never made."""
        if self._loggers is None:
            for text, level in self._early:
                with suppress(OSError, ValueError):
                    print(f"{level}: {text}", file=sys.stderr)

    def _show_progress(self, what: str, done: int, total: int) -> None:
        if self._loggers is not None:
            self._loggers.progress(what, done, total)

    def execute(self, begin: Callable[[_Run, Backbone, TaskSampler], Generator[Event]]) -> RunOutcome:
        """Make the remaining parts, consume the backbone's events, and record how the run ended."""
        plan, info, hooks = self._plan, self.info, self._hooks
        with name_place("the reader"):
            reader = hooks.make_reader(plan.reader.candidate, plan.reader.options, info)
            if (reporting := find_offer(reader, ReportsProgress)) is not None:
                reporting.report_to(self.notify)
            tasks = plan.sample_tasks(reader, self.notify)
        hooks.tasks_read("train", tasks.train_tasks)
        hooks.tasks_read("validation", tasks.validation_tasks)
        if (ended := describe_last_attempt(self._directory)) is not None:
            self.notify(ended)
        facts = collect_run_facts(plan) | {"sources": collect_sources(plan, reader, tasks)}
        if self._start.resumed:
            for notice in prepare_resume(self._directory, plan, self._store, tasks, self._start, facts, self._accepted):
                self.notify(notice)
        self._directory.write_run(facts)
        self._write_config()
        keep_tokenizer(self._directory, plan.loaded.config.model.path)
        # Before the loggers drop the rows of the steps that are repeated.
        replayed = ReplayedSteps(store=self._store, times=read_step_times(self._directory.metrics, self._start.step))
        self._loggers = Loggers(self._make_loggers(), on_failure=lambda text: self.notify(text))
        self._stack.callback(self._loggers.close)
        if self._step_url is not None:
            self._loggers.link_steps(self._step_url)
        self.notify(format_header(plan), "info")
        for text, level in [*((text, "info") for text in plan.notices if text not in plan.summed_up), *self._early]:
            self.notify(text, level)
        for settled in plan.settle_values():
            if settled.cost is not None:
                self.notify(f"{settled.key} is {settled.value}: {settled.cost}")
        progress = Progress(faults=EpisodeFaults(self._directory.path), step=self._start.step)
        exit_code = 1
        try:
            with stop_on_signals(self.control, lambda text: self.notify(text, "warning"), self._end_by_force):
                # From here on `astuner stop` finds a run that saves what it has.
                self._directory.write_state(status="running")
                hooks.run_started(info, list_plugins_in_use(plan))
                backbone = hooks.make_backbone(plan.backbone.candidate, plan.backbone.options, info)
                try:
                    if not self.control.stop:
                        drive(
                            begin(self, backbone, tasks),
                            run_info=info,
                            directory=self._directory,
                            loggers=self._loggers,
                            hooks=hooks,
                            control=self.control,
                            progress=progress,
                            replayed=replayed,
                        )
                except KeyboardInterrupt:
                    # Leaving a debugger outside of the rollouts requests a stop, then interrupts the code it was in.
                    if not self.control.stop:
                        raise
                finally:
                    backbone.close()
            if self.control.stop:
                raise Interrupted(f"stopped after step {progress.step}")
            self._directory.write_state(status="finished")
            exit_code = 0
        except (Interrupted, KeyboardInterrupt) as ended:
            exit_code = 130
            self._directory.write_state(status="interrupted")
            if isinstance(ended, Interrupted) and self.resume_command is not None:
                raise Interrupted(f"{ended}; continue with: {self.resume_command}") from ended
            raise
        except BaseException as error:
            exit_code = error.exit_code if isinstance(error, AstunerError) else 1
            self._write_failure(error)
            if isinstance(error, RunFailed) and error.resumable:
                error.resume_command = self.resume_command
            raise
        finally:
            for text in progress.faults.summarise():
                self.notify(text)
            for tag in self._asked.list_unreached():
                self.notify(f"--db {tag}: no breakpoint with this tag was reached")
            self._write_provenance()
            hooks.run_finished(info, exit_code)
        viewers, run_viewers = tuple(self._loggers.list_viewer_commands()), tuple(list_run_viewers(plan.catalog))
        return RunOutcome(
            exit_code=0,
            directory=self._directory.path,
            before=progress.before,
            after=progress.after,
            before_groups=progress.before_groups,
            after_groups=progress.after_groups,
            story=tuple(tell_story(self._directory, viewers, run_viewers)),
            viewers=viewers,
            run_viewers=run_viewers,
        )

    def _end_by_force(self) -> None:
        close_loggers = self._loggers.close if self._loggers is not None else lambda: None
        end_by_force(self._directory, self._store, self._record, close_loggers, self.resume_command)

    def _make_loggers(self) -> list[NamedLogger]:
        made = []
        for component in self._plan.loggers:
            logger = self._hooks.make_logger(component.candidate, component.options, self.info)
            if (after := self._start.replay_after) is not None and (truncating := find_offer(logger, Truncates)) is not None:
                # The replay writes rows after the checkpoint again.
                truncating.truncate_after(after)
            made.append(NamedLogger(component.candidate.name, logger))
        return made

    def _write_config(self) -> None:
        from astuner.settings.config.redaction import redact_text, redact_tree, restore_values
        from astuner.settings.config.show import sign_variables, to_yaml

        loaded = self._plan.loaded
        self._directory.write_config(
            given=redact_text(loaded.text),
            resolved=to_yaml(loaded),
            native=self._secrets.hide_in_tree(redact_tree(restore_values(self.info.native, loaded.environment_values))),
            environment=sign_variables(loaded),
            relative_to=loaded.directory,
        )

    def _write_provenance(self) -> None:
        """Record who made and who wrapped each component; separate rollout processes only know their own."""
        try:
            made = [dict(made.row()) for made in self._hooks.provenance]
            sources = self._directory.run.get("sources", {})
            # Modules that were imported since the start; of the others, the code as it ran counts.
            sources["code"] = {**collect_code(self._plan), **sources.get("code", {})}
            self._directory.amend_run(made=made, sources=sources)
        except (AstunerError, OSError) as full:
            # An agent may have removed the working directory.
            print(f"warning: {full}", file=sys.stderr)

    def _write_failure(self, error: BaseException) -> None:
        reason = str(error) if isinstance(error, AstunerError) else f"{type(error).__name__}: {error}"
        try:
            self._directory.write_state(status="failed", reason=self._secrets.hide(reason))
        except AstunerError as full:
            # The disk may be what failed; the original error is the one to show.
            print(f"warning: {full}", file=sys.stderr)
