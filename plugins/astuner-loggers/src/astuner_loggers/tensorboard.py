"""The logger `tensorboard`: metrics as scalars, rewards as histograms, episodes as text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from attrs.validators import ge

from astuner.errors import PluginError
from astuner.protocols import RunInfo
from astuner.rollout.transcript import transcript
from astuner.schema import Episode, Group

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

    def __init__(self, options: Options, directory: Path) -> None:
        self._options = options
        place = directory / options.directory
        first = not any(place.glob("events.out.tfevents.*"))
        self._writer = _writer(place)
        if first:
            # The first start of all is not taken for a restart; without it, that of a resumed run would not be either.
            self._start(0)

    @classmethod
    def from_run(cls, options: Options | None, run_info: RunInfo) -> TensorboardLogger:
        """Make the logger of a run."""
        return cls(options or cls.Options(), run_info.directory)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write each metric as a scalar under its own name."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        for name, value in metrics.items():
            self._write(step, summary=scalar_pb(name, float(value)))
        self._writer.flush()

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write how the rewards are distributed, and the transcripts of a few episodes."""
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb
        from tensorboard.plugins.text.summary_v2 import text_pb

        prefix = "val/" if groups and groups[0].split == "validation" else ""
        ranked = sorted(_rewarded(groups), key=lambda pair: pair[0])
        if not ranked:
            return
        self._write(step, summary=histogram_pb(f"{prefix}reward/distribution", [reward for reward, _ in ranked]))
        for number, (_, episode) in enumerate(_spread(ranked, self._options.episodes), 1):
            self._write(step, summary=text_pb(f"{prefix}episode/{number}", _as_markdown(transcript(episode))))
        self._writer.flush()

    def truncate_after(self, step: int) -> None:
        """Tell readers to forget what was written of later steps, as a run does that goes on from the checkpoint of `step`."""
        self._start(step + 1)
        self._writer.flush()

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()

    def _start(self, step: int) -> None:
        """Say that what is written from here on replaces everything from `step` on."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        self._write(step, session_log=SessionLog(status=SessionLog.START))

    def _write(self, step: int, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, **content))


def _writer(directory: Path) -> EventFileWriter:
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise PluginError(
            f"logger 'tensorboard' needs the package tensorboard ({error}): pip install \"astuner-loggers[tensorboard]\""
        ) from error
    return EventFileWriter(str(directory))


def _rewarded(groups: Sequence[Group]) -> list[tuple[float, Episode]]:
    return [(episode.reward, episode) for group in groups for episode in group.episodes if episode.reward is not None]


def _spread(ranked: Sequence[tuple[float, Episode]], count: int) -> list[tuple[float, Episode]]:
    """Choose so many, evenly from the first to the last."""
    if count >= len(ranked):
        return list(ranked)
    if count <= 1:
        return list(ranked[-1:] if count else ())
    return [ranked[round(place * (len(ranked) - 1) / (count - 1))] for place in range(count)]


def _as_markdown(text: str) -> str:
    """Indent, which makes it a code block whatever marks it contains."""
    return "\n".join(f"    {line}" for line in text.splitlines())
