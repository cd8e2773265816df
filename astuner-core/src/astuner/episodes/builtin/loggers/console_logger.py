"""The progress of a run on the terminal: a live table on a terminal, else a line per step."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from astuner.breakpoints.stopping import TERMINAL
from astuner.contract.protocols import LoggerTraits, RunInfo
from astuner.contract.schema import Group
from astuner.episodes.builtin.loggers.step_figures import Row, format_figures, format_waterfall, thin_rows

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 12
"""Rows that the live table shows: what is above it on the screen stays readable."""
LINE_EVERY_S = 60.0


class ConsoleLogger:
    """Shows each step on stderr: reward, success, KL, speed, and the waterfall of the training signal with what was lost."""

    traits = LoggerTraits(shows_progress=True, shows_notices=True, links_steps=True)

    def __init__(self, title: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._printed_at_s = clock()
        self._widths: dict[str, int] = {}
        """Of the figures by name, so that lines align."""
        self._live = _LiveTable(title, self._stream) if self._stream.isatty() else None

    @classmethod
    def from_run(cls, options: Any, run_info: RunInfo) -> ConsoleLogger:
        """Make the logger of a run; it has no options."""
        from astuner.settings.config.model import Config

        project = "" if run_info.project_name == Config().project_name else f"{run_info.project_name}/"
        return cls(f"{project}{run_info.experiment_name} on {run_info.backbone}")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the metrics of a step or of a validation."""
        self._printed_at_s = self._clock()
        if self._live is not None:
            self._live.show(step, metrics)
            return
        parts = []
        for name, text in format_figures(metrics):
            self._widths[name] = max(len(text), self._widths.get(name, 0))
            parts.append(f"{name} {text.rjust(self._widths[name])}")
        waterfall = format_waterfall(metrics, brief=True)
        print(f"step {step}: {'  '.join([*parts, *([waterfall] if waterfall else [])])}", file=self._stream, flush=True)

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Show nothing: the run store keeps the episodes."""

    def link_steps(self, url: str) -> None:
        """Link each step of the table to its page; `{step}` in the URL is its number."""
        if self._live is not None:
            self._live.step_url = url

    def notice(self, text: str, level: str) -> None:
        """Show a notice between the steps."""
        # Multi-line text, such as a transcript, needs no prefix.
        text = text if level == "info" and "\n" in text else f"{level}: {text}"
        if self._live is not None:
            self._live.say(text)
        else:
            print(text, file=self._stream, flush=True)

    def progress(self, what: str, done: int, total: int) -> None:
        """Show progress; in output that cannot be overwritten later, a line a minute."""
        if self._live is not None:
            self._live.progress(what, done, total)
        elif self._clock() - self._printed_at_s >= LINE_EVERY_S:
            self._printed_at_s = self._clock()
            print(f"{what}: {done} of {total}", file=self._stream, flush=True)

    def close(self) -> None:
        """Leave the last state on the screen and release the terminal."""
        if self._live is not None:
            self._live.stop()


class _LiveTable:
    """A table of the last steps that is redrawn in place, below other output; at the end, of the whole run."""

    def __init__(self, title: str, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._title = title
        self.step_url: str | None = None
        self._rows: list[Row] = []
        self._progress: tuple[str, int, int] | None = None
        # Redrawn on changes, without a thread. Redirected stdout is left alone.
        self._live = Live(
            self._build_table(self._rows),
            console=Console(file=stream),
            auto_refresh=False,
            redirect_stdout=bool(sys.stdout and sys.stdout.isatty()),
        )
        self._held: list[str] | None = None
        """Notices held back while a debugger has the terminal; else None."""
        self._lock = threading.RLock()
        self._live.start()
        TERMINAL.displays.append(self)

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        self._rows.append((step, metrics))
        self._progress = None
        self._draw()

    def say(self, text: str) -> None:
        from rich.text import Text

        with self._lock:
            if self._held is not None:
                self._held.append(text)
            else:
                self._live.console.print(Text.from_ansi(text), soft_wrap=True)

    def progress(self, what: str, done: int, total: int) -> None:
        self._progress = (what, done, total)
        self._draw()

    def pause(self) -> None:
        """Leave the terminal to a debugger, without the table."""
        with self._lock:
            self._held = []
            self._live.transient = True
            self._live.stop()

    def resume(self) -> None:
        """Print the held-back notices and draw the table below them."""
        with self._lock:
            held, self._held = self._held or [], None
            self._live.transient = False
            self._live.start()
            for text in held:
                self.say(text)
            self._draw()

    def stop(self) -> None:
        TERMINAL.displays = [one for one in TERMINAL.displays if one is not self]
        with self._lock:
            self._progress = None
            self._live.update(self._build_table(thin_rows(self._rows)), refresh=self._held is None)
            self._live.stop()

    def _draw(self) -> None:
        with self._lock:
            self._live.update(self._build_table(self._rows[-_ROWS:]), refresh=self._held is None)

    def _build_table(self, shown: Sequence[Row]) -> RenderableType:
        from rich.console import Group

        from astuner.episodes.builtin.loggers.step_table import build_step_table

        table = build_step_table(self._title, self._rows, shown, self.step_url)
        return Group(table, _make_bar(*self._progress)) if self._progress else table


def _make_bar(what: str, done: int, total: int) -> RenderableType:
    from rich.columns import Columns
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    return Columns([Text(what), ProgressBar(total=total, completed=done, width=40), Text(f"{done} of {total}")])
