"""`astuner run --json`: a run as lines of JSON on stdout, each an object with its `event`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import click
from attrs import evolve

from astuner.cli.output import print_json
from astuner.cli.run import RunOutcome, RunRequest, start_run
from astuner.contract.protocols import LoggerTraits
from astuner.contract.schema import Group
from astuner.episodes.transcript.terminal_text import strip_colours


class LineLogger:
    """Prints notices, and the metrics of steps and validations, whose names begin with `val/`."""

    traits = LoggerTraits(shows_notices=True)

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def print_event(self, event: str, **facts: Any) -> None:
        """Print a line."""
        print_json({"event": event, **facts}, indent=None, stream=self._stream)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the metrics of a step or of a validation."""
        self.print_event("metrics", step=step, metrics={**metrics})

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Print nothing: the run store keeps the episodes."""

    def notice(self, text: str, level: str) -> None:
        """Print a notice."""
        self.print_event("notice", level=level, text=strip_colours(text))

    def close(self) -> None:
        """Leave stdout to the lines after this run."""


def print_run(request: RunRequest) -> RunOutcome:
    """Run as `start_run` does, with a line for each event; an error is left to the command line, which prints it as one."""
    lines = LineLogger(click.get_current_context().find_root().obj)
    outcome = start_run(evolve(request, loggers=(*request.loggers, lines)))
    validations = {"before": outcome.before, "after": outcome.after}
    lines.print_event("finished", directory=outcome.directory, story=outcome.story, validations=validations)
    return outcome
