"""The logger `tensorboard`: metrics as scalars, rewards as histograms, episodes and the configuration as text."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from attrs.validators import ge

from astuner import hookimpl
from astuner.contract.errors import PluginError
from astuner.contract.protocols import LoggerTraits, RunInfo
from astuner.contract.schema import Group
from astuner.runs.inspection import find_metric_name
from astuner.shared.install_hints import install_command
from astuner_loggers.episodes import summarise
from astuner_loggers.parameters import build_parameters, collect_secrets
from astuner_loggers.tensorboard_configuration import indent_as_code, summarise_configuration, summarise_success

if TYPE_CHECKING:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

IN_THE_RUN = "."
EARLIER_DIRECTORY = "tensorboard"
"""Where earlier versions wrote, so that every run was called `NAME/tensorboard`."""


class TensorboardLogger:
    """Writes event files to the run directory, which gives TensorBoard the run's name; needs neither torch nor tensorflow."""

    traits = LoggerTraits(truncates=True, names_viewer=True)

    @frozen(kw_only=True)
    class Options:
        """Options of the logger `tensorboard`."""

        directory: str = IN_THE_RUN
        """Where the event files go; relative to the run directory. TensorBoard names a run by the directory of its files."""
        episodes: int = field(default=3, validator=ge(0))
        """How many episodes of a step are written as text, from the lowest to the highest reward."""

    def __init__(self, options: Options, run_info: RunInfo) -> None:
        if find_spec("tensorboard") is None:
            raise _explain_missing("no module of this name")
        self._options, self._run_info, self._secrets = options, run_info, collect_secrets(run_info)
        self._directory = _choose_directory(options, run_info.directory)
        self._writer: EventFileWriter | None = None
        self._begun = False
        self._described: set[str] = set()
        """Tags whose description is written: readers take it from the first event of a tag."""

    @classmethod
    def from_run(cls, options: Options | None, run_info: RunInfo) -> TensorboardLogger:
        """Make the logger of a run."""
        return cls(options or cls.Options(), run_info)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write each metric as a scalar under its own name, with what it means."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        self._begin()
        for name, value in metrics.items():
            self._write(step, summary=scalar_pb(name, float(value), description=self._describe(name)))
        self._flush()

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write the distribution of rewards, and the transcripts of a few episodes."""
        if (summary := summarise(groups, self._options.episodes, self._secrets)) is None:
            return
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._begin()
        about = "The rewards of the episodes."
        name = f"{summary.prefix}reward/distribution"
        self._write(step, summary=histogram_pb(name, list(summary.rewards), description=about))
        for number, episode in enumerate(summary.shown, 1):
            about = f"Transcript {number} of {len(summary.shown)}, from the lowest to the highest reward."
            name = f"{summary.prefix}episode/{number}"
            self._write(step, summary=text_pb(name, indent_as_code(episode.text), description=about))
        self._flush()

    def truncate_after(self, step: int) -> None:
        """Make readers discard later steps: the run continues from the checkpoint of `step`."""
        self._start(step + 1)
        self._flush()

    def format_viewer_command(self) -> str:
        """Return the command that opens the event files: with those of the other runs, if they are in the run directory."""
        run = self._run_info.directory.resolve()
        files = self._directory.resolve()
        shown = run.parent if files.is_relative_to(run) else files
        return f"tensorboard --logdir {shlex.quote(_shorten(shown))}"

    @hookimpl
    def astuner_run_finished(self, exit_code: int) -> None:
        """Mark a run that reached its end."""
        if exit_code == 0 and self._begun:
            self._write(0, summary=summarise_success())

    def close(self) -> None:
        """Flush and close the event file."""
        if self._writer is not None:
            self._writer.close()

    def _describe(self, metric: str) -> str | None:
        """Return what a metric means the first time that it is written; None for a backbone's own."""
        if metric in self._described:
            return None
        self._described.add(metric)
        found = find_metric_name(metric)
        return None if found is None else f"{found.about} Unit: {found.unit}." if found.unit else found.about

    def _begin(self) -> None:
        # A run that is not resumed replaces another in the same directory. TensorBoard ignores the first start event of all;
        # without it, it would ignore that of a resumed run.
        if not self._begun:
            self._start(0)

    def _start(self, step: int) -> None:
        """Mark that later events replace everything from `step` on, and write the configuration that they were made with."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        self._begun = True
        self._write(step, session_log=SessionLog(status=SessionLog.START))
        for summary in summarise_configuration(build_parameters(self._run_info), self._run_info.experiment_name):
            self._write(step, summary=summary)

    def _write(self, step: int, **content: Any) -> None:
        # Imports that take half a second wait until there is something to write.
        if self._writer is None:
            self._writer = _open_writer(self._directory)
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, **content))

    def _flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()


def _choose_directory(options: TensorboardLogger.Options, run: Path) -> Path:
    """Return where the event files go: a curve that an earlier version began goes on where it is."""
    earlier = run / EARLIER_DIRECTORY
    if options.directory == IN_THE_RUN and any(earlier.glob("*tfevents*")):
        return earlier
    return run / options.directory


def _open_writer(directory: Path) -> EventFileWriter:
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise _explain_missing(str(error)) from error
    return EventFileWriter(str(directory))


def _explain_missing(reason: str) -> PluginError:
    command = install_command("astuner-loggers[tensorboard]")
    return PluginError(f"logger 'tensorboard' needs the package tensorboard ({reason}): {command}")


def _shorten(path: Path) -> str:
    """Return a path as it is typed in the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
