"""The logger `tensorboard`: metrics as scalars, rewards as histograms, episodes as text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from attrs.validators import ge

from astuner.errors import PluginError
from astuner.install_hints import install_command
from astuner.protocols import RunInfo
from astuner.schema import Group
from astuner_loggers.episodes import summarise
from astuner_loggers.parameters import collect_secrets

if TYPE_CHECKING:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter


class TensorboardLogger:
    """Writes event files to `tensorboard/` in the run directory; needs neither torch nor tensorflow."""

    @frozen(kw_only=True)
    class Options:
        """Options of the logger `tensorboard`."""

        directory: str = "tensorboard"
        """Where the event files go; relative to the run directory."""
        episodes: int = field(default=3, validator=ge(0))
        """How many episodes of a step are written as text, from the lowest to the highest reward."""

    def __init__(self, options: Options, run_info: RunInfo) -> None:
        self._options, self._secrets = options, collect_secrets(run_info)
        self._writer = _writer(run_info.directory / options.directory)
        self._begun = False

    @classmethod
    def from_run(cls, options: Options | None, run_info: RunInfo) -> TensorboardLogger:
        """Make the logger of a run."""
        return cls(options or cls.Options(), run_info)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write each metric as a scalar under its own name."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        self._begin()
        for name, value in metrics.items():
            self._write(step, summary=scalar_pb(name, float(value)))
        self._writer.flush()

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write the distribution of rewards, and the transcripts of a few episodes."""
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb
        from tensorboard.plugins.text.summary_v2 import text_pb

        if (summary := summarise(groups, self._options.episodes, self._secrets)) is None:
            return
        self._begin()
        self._write(step, summary=histogram_pb(f"{summary.prefix}reward/distribution", list(summary.rewards)))
        for number, episode in enumerate(summary.shown, 1):
            self._write(step, summary=text_pb(f"{summary.prefix}episode/{number}", _as_markdown(episode.text)))
        self._writer.flush()

    def truncate_after(self, step: int) -> None:
        """Make readers discard later steps: the run continues from the checkpoint of `step`."""
        self._start(step + 1)
        self._writer.flush()

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()

    def _begin(self) -> None:
        # A run that is not resumed replaces another in the same directory. TensorBoard ignores the first start event of all;
        # without it, it would ignore that of a resumed run.
        if not self._begun:
            self._start(0)

    def _start(self, step: int) -> None:
        """Mark that later events replace everything from `step` on."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        self._begun = True
        self._write(step, session_log=SessionLog(status=SessionLog.START))

    def _write(self, step: int, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, **content))


def _writer(directory: Path) -> EventFileWriter:
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise PluginError(
            f"logger 'tensorboard' needs the package tensorboard ({error}): {install_command('astuner-loggers[tensorboard]')}"
        ) from error
    return EventFileWriter(str(directory))


def _as_markdown(text: str) -> str:
    """Indent a text: that makes it a code block, whatever marks it contains."""
    return "\n".join(f"    {line}" for line in text.splitlines())
