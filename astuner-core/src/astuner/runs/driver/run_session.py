"""One run while it lives: from its tasks to its outcome; how it ended is recorded on every path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, nullcontext
from typing import TYPE_CHECKING, Any, cast

from attrs import evolve

from astuner.breakpoints.selection import NO_BREAKPOINTS, BreakpointSelection
from astuner.breakpoints.stopping import TIME_LIMITS_OFF, connect_run, expects_stops, name_place, remove_time_limits
from astuner.contract.errors import AstunerError, Interrupted, RunFailed
from astuner.contract.protocols import LoggerTraits, ReaderTraits, read_traits
from astuner.contract.schema import Event
from astuner.episodes.containment.process_streams import count_repeats
from astuner.episodes.rollout.sampler import TaskSampler
from astuner.runs.driver.control import RunControl, stop_on_signals
from astuner.runs.driver.episode_faults import EpisodeFaults
from astuner.runs.driver.event_handling import Progress, drive
from astuner.runs.driver.replayed_steps import ReplayedSteps, read_step_times
from astuner.runs.driver.reporting import Loggers, NamedLogger
from astuner.runs.driver.run_directories import describe_last_attempt, is_throwaway
from astuner.runs.driver.run_facts import collect_run_facts, format_header, list_plugins_in_use
from astuner.runs.driver.run_messages import RunMessages
from astuner.runs.driver.run_outcome import RunOutcome
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.driver.run_story import list_run_viewers, tell_story
from astuner.runs.driver.sources import check_models, collect_code, collect_sources
from astuner.runs.driver.start_step import StartStep, prepare_resume
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.runs.store.kept_tokenizer import keep_tokenizer
from astuner.settings.config.redaction import redact_text, redact_tree
from astuner.settings.config.show import sign_variables, to_yaml
from astuner.settings.planning.plan import Plan
from astuner.settings.plugins.hooks import Hooks
from astuner.shared.processes.program_record import ProgramRecord

if TYPE_CHECKING:
    from astuner.contract.protocols import Backbone

Begin = Callable[["RunSession", "Backbone", TaskSampler], Generator[Event]]
"""Starts what the backbone is to do: to train, or to evaluate."""


class RunSession:
    """The live parts of one run; `stack` closes them."""

    def __init__(
        self,
        plan: Plan,
        directory: RunDirectory,
        start: StartStep,
        *,
        request: RunRequest,
        stack: ExitStack,
        record: ProgramRecord,
        breakpoints: BreakpointSelection = NO_BREAKPOINTS,
        resume_command: str | None = None,
    ) -> None:
        """Start nothing yet; `record` lists the process as a run, and `resume_command` continues it, if something can."""
        self._plan, self._directory, self._stack, self._record = plan, directory, stack, record
        self._request, self._start, self._breakpoints, self._resume_command = request, start, breakpoints, resume_command
        stack.enter_context(plan.loaded.secrets.hide_in_errors())
        self._messages = RunMessages(plan.loaded.secrets)
        self.notify = self._messages.notify
        self._loggers: Loggers | None = None
        self._step_url: str | None = None
        self._hooks = hooks = Hooks(plan.catalog, on_listener_error=self.notify, options=plan.loaded.config.plugins.options)
        hooks.check_pending()
        self.info = evolve(plan.run_info(attempt=directory.attempts + 1, fresh=request.fresh), directory=directory.path)
        if expects_stops():
            self.info = remove_time_limits(self.info)
            self.notify(TIME_LIMITS_OFF, "info")
        self._store = store = EpisodeFiles(directory.episodes, replay_after=start.replay_after, report=self.notify)
        stack.callback(store.close)
        stack.callback(self._messages.print_early)
        self.control = RunControl(
            store=store, hooks=hooks, resume_step=start.step, notify=self.notify, progress=self._messages.show_progress
        )
        stack.enter_context(connect_run(self.control, self.control.request_stop, self.notify))
        self._progress = Progress(faults=EpisodeFaults(directory.path), step=start.step)

    def execute(self, begin: Begin) -> RunOutcome:
        """Serve, read the tasks, record what the run is made from, consume the backbone's events, record how it ended."""
        self._serve()
        tasks = self._read_tasks()
        keep_tokenizer(self._directory, self._plan.loaded.config.model)
        # Before the loggers drop the rows of the steps that are repeated.
        replayed = ReplayedSteps(store=self._store, times=read_step_times(self._directory.metrics, self._start.step))
        self._open_loggers()
        exit_code = 1
        try:
            self._drive(begin, tasks, replayed)
            exit_code = 0
        except (Interrupted, KeyboardInterrupt) as ended:
            exit_code = Interrupted.exit_code
            self._directory.write_state(status="interrupted")
            if isinstance(ended, Interrupted) and self._resume_command is not None:
                raise Interrupted(f"{ended}; continue with: {self._resume_command}") from ended
            raise
        except BaseException as error:
            exit_code = error.exit_code if isinstance(error, AstunerError) else 1
            self._write_failure(error)
            raise
        finally:
            self._finish(exit_code)
        return self._make_outcome()

    def _serve(self) -> None:
        """Start the requested services: the tasks may already come from one."""
        if not self._request.services:
            return
        from astuner.settings.planning.service_choice import choose_services
        from astuner.shared.services.running import ServiceHost, run_services

        say = self._messages.say
        host = ServiceHost(
            directory=self._directory.path,
            say=say,
            warn=self.notify,
            stopped=lambda: self.control.stop,
            hide=self._plan.loaded.secrets.hide,
        )
        services = choose_services(self._request.services, self.info, self._plan.catalog, self._hooks)
        self._step_url = next((one.step_url for one in services.values() if one.step_url is not None), None)
        with stop_on_signals(self.control, say):
            self._stack.enter_context(run_services(services, host))

    def _read_tasks(self) -> TaskSampler:
        """Read the tasks, and record what the run is made from; a resume is refused here if that has changed."""
        plan, hooks = self._plan, self._hooks
        with name_place("the reader"):
            reader = hooks.make_reader(plan.reader.candidate, plan.reader.options, self.info)
            if read_traits(reader, ReaderTraits).reports_progress:
                cast("Any", reader).report_to(self.notify)
            tasks = plan.sample_tasks(reader, self.notify)
        hooks.tasks_read("train", tasks.train_tasks)
        hooks.tasks_read("validation", tasks.validation_tasks)
        if (ended := describe_last_attempt(self._directory)) is not None:
            self.notify(ended)
        facts = collect_run_facts(plan) | {"sources": collect_sources(plan, reader, tasks)}
        if self._start.resumed:
            accepted = self._request.accept_changes
            for notice in prepare_resume(self._directory, plan, self._store, tasks, self._start, facts, accepted):
                self.notify(notice)
        self._directory.write_run(facts)
        self._write_config()
        return tasks

    def _open_loggers(self) -> None:
        """Make the loggers, and show what has waited for them."""
        plan = self._plan
        self._loggers = loggers = Loggers(self._make_loggers(), on_failure=lambda text: self.notify(text))
        self._stack.callback(loggers.close)
        if self._step_url is not None:
            loggers.link_steps(self._step_url)
        early = self._messages.connect(loggers, self._hooks)
        self.notify(format_header(plan), "info")
        for text in plan.notices:
            if text not in plan.summed_up:
                self.notify(text, "info")
        for text, level in early:
            self.notify(text, level)
        for settled in plan.settle_values():
            if settled.cost is not None:
                self.notify(f"{settled.key} is {settled.value}: {settled.cost}")

    def _drive(self, begin: Begin, tasks: TaskSampler, replayed: ReplayedSteps) -> None:
        """Make the backbone and consume its events; raises `Interrupted` after a stop."""
        assert self._loggers is not None
        # Who looks at episodes or stands at a breakpoint sees everything.
        counted = nullcontext() if is_throwaway(self._plan) or expects_stops() else count_repeats(self.notify)
        with counted, stop_on_signals(self.control, lambda text: self.notify(text, "warning"), self._end_by_force):
            # From here on `astuner stop` finds a run that saves what it has.
            self._directory.write_state(status="running")
            self._hooks.run_started(self.info, list_plugins_in_use(self._plan))
            backbone = self._hooks.make_backbone(self._plan.backbone.candidate, self._plan.backbone.options, self.info)
            try:
                if not self.control.stop:
                    drive(
                        self._check_model(begin(self, backbone, tasks)),
                        run_info=self.info,
                        directory=self._directory,
                        loggers=self._loggers,
                        hooks=self._hooks,
                        control=self.control,
                        progress=self._progress,
                        replayed=replayed,
                    )
            except KeyboardInterrupt:
                # Leaving a debugger outside of the rollouts requests a stop, then interrupts the code it was in.
                if not self.control.stop:
                    raise
            finally:
                backbone.close()
        if self.control.stop:
            raise Interrupted(f"stopped after step {self._progress.step}")
        self._directory.write_state(status="finished")

    def _check_model(self, events: Generator[Event]) -> Generator[Event]:
        """Pass events on; raises `RunFailed` at the first one, when all is loaded, if the model was replaced meanwhile."""
        with closing(events):
            for number, event in enumerate(events):
                if number == 0:
                    check_models(self._plan, self._directory.run.get("sources", {}).get("model", {}))
                yield event

    def _finish(self, exit_code: int) -> None:
        for text in self._progress.faults.summarise():
            self.notify(text)
        for tag in self._breakpoints.list_unreached():
            self.notify(f"--db {tag}: no breakpoint with this tag was reached")
        self._write_provenance()
        self._hooks.run_finished(self.info, exit_code)

    def _make_outcome(self) -> RunOutcome:
        assert self._loggers is not None
        viewers, run_viewers = tuple(self._loggers.list_viewer_commands()), tuple(list_run_viewers(self._plan.catalog))
        return RunOutcome(
            exit_code=0,
            directory=self._directory.path,
            before=self._progress.before,
            after=self._progress.after,
            before_groups=self._progress.before_groups,
            after_groups=self._progress.after_groups,
            story=tuple(tell_story(self._directory, viewers, run_viewers, shown=is_throwaway(self._plan))),
            viewers=viewers,
            run_viewers=run_viewers,
        )

    def _end_by_force(self) -> None:
        from astuner.runs.driver.forced_end import end_by_force

        close_loggers = self._loggers.close if self._loggers is not None else lambda: None
        end_by_force(self._directory, self._store, self._record, close_loggers, self._resume_command)

    def _make_loggers(self) -> list[NamedLogger]:
        made = [NamedLogger("--json", logger) for logger in self._request.loggers]
        for component in self._plan.loggers:
            logger = self._hooks.make_logger(component.candidate, component.options, self.info)
            if (after := self._start.replay_after) is not None and read_traits(logger, LoggerTraits).truncates:
                # The replay writes rows after the checkpoint again.
                cast("Any", logger).truncate_after(after)
            made.append(NamedLogger(component.candidate.name, logger))
        return made

    def _write_config(self) -> None:
        loaded = self._plan.loaded
        self._directory.write_config(
            given=redact_text(loaded.text),
            resolved=to_yaml(loaded),
            native=redact_tree(loaded.secrets.hide_in_tree(self.info.native)),
            environment=sign_variables(loaded),
            relative_to=loaded.directory,
        )

    def _write_provenance(self) -> None:
        """Record who made and who wrapped each component; separate rollout processes only know their own."""
        try:
            made = [dict(made.row()) for made in self._hooks.provenance]
            sources = self._directory.run.get("sources", {})
            sources["code"] = collect_code(self._plan, sources.get("code", {}))
            self._directory.amend_run(made=made, sources=sources)
        except (AstunerError, OSError) as full:
            # An agent may have removed the working directory.
            print(f"warning: {full}", file=sys.stderr)

    def _write_failure(self, error: BaseException) -> None:
        reason = str(error) if isinstance(error, AstunerError) else f"{type(error).__name__}: {error}"
        if isinstance(error, RunFailed) and error.resumable:
            error.resume_command = self._resume_command
        try:
            self._directory.write_state(status="failed", reason=self._plan.loaded.secrets.hide(reason))
        except AstunerError as full:
            # The disk may be what failed; the original error is the one to show.
            print(f"warning: {full}", file=sys.stderr)
