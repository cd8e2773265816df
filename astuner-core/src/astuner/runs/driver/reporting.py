"""The loggers of a run: each gets everything, and one that fails is named and left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define

from astuner.contract.protocols import Logger, LoggerTraits, read_traits
from astuner.contract.schema import Group


@define(eq=False)
class NamedLogger:
    """A logger and what to call it."""

    name: str
    logger: Logger


class Loggers:
    """Fans reports out."""

    def __init__(self, loggers: Sequence[NamedLogger], on_failure: Callable[[str], None]) -> None:
        """`on_failure` is called once per failing logger, with the error."""
        self._loggers = list(loggers)
        self._on_failure = on_failure

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step everywhere."""
        self._call_each(lambda logger: logger.log(step, metrics))

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write the episodes of a step everywhere."""
        self._call_each(lambda logger: logger.log_episodes(step, groups))

    def progress(self, what: str, done: int, total: int) -> None:
        """Pass progress on to the loggers that show it."""

        def show(logger: Any) -> None:
            if read_traits(logger, LoggerTraits).shows_progress:
                logger.progress(what, done, total)

        self._call_each(show)

    def notice(self, text: str, level: str) -> bool:
        """Pass a notice on to the loggers that show it; return whether one did."""
        shown = False

        def show(logger: Any) -> None:
            nonlocal shown
            if read_traits(logger, LoggerTraits).shows_notices:
                logger.notice(text, level)
                shown = True

        self._call_each(show)
        return shown

    def link_steps(self, url: str) -> None:
        """Pass the URL of the pages about steps on to the loggers that link to them."""

        def link(logger: Any) -> None:
            if read_traits(logger, LoggerTraits).links_steps:
                logger.link_steps(url)

        self._call_each(link)

    def list_viewer_commands(self) -> list[str]:
        """Return the commands that show what the loggers have written."""
        commands: list[str] = []

        def collect(logger: Any) -> None:
            if read_traits(logger, LoggerTraits).names_viewer:
                commands.append(logger.format_viewer_command())

        self._call_each(collect)
        return commands

    def close(self) -> None:
        """Flush and end all of them."""
        self._call_each(lambda logger: logger.close())
        self._loggers.clear()

    def _call_each(self, act: Callable[[Logger], None]) -> None:
        for named in list(self._loggers):
            try:
                act(named.logger)
            except Exception as error:  # noqa: BLE001 - the boundary for loggers: the run continues without it
                self._loggers.remove(named)
                self._on_failure(f"logger '{named.name}' failed and is left out: {type(error).__name__}: {error}")
