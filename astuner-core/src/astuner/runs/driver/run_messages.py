"""The messages of a run to its user: they wait for the loggers, and are shown without secrets."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from astuner.contract.schema import Notice
from astuner.episodes.transcript.terminal_text import strip_colours
from astuner.runs.driver.reporting import Loggers
from astuner.settings.config.secrets import Secrets

if TYPE_CHECKING:
    from astuner.settings.plugins.hooks import Hooks

Level = Literal["info", "warning"]


class RunMessages:
    """Shows messages through the loggers, and on stderr before and without them."""

    def __init__(self, secrets: Secrets) -> None:
        """Take the values of `secrets` out of what is shown."""
        self._secrets = secrets
        self._early: list[tuple[str, Level]] = []
        self._loggers: Loggers | None = None
        self._hooks: Hooks | None = None

    def connect(self, loggers: Loggers, hooks: Hooks) -> list[tuple[str, Level]]:
        """Show messages through these from now on; return those that have waited, which are not shown yet."""
        self._loggers, self._hooks = loggers, hooks
        return self._early

    def notify(self, text: str, level: Level = "warning") -> None:
        """Show a message; until the loggers exist it waits for them."""
        text = self._secrets.hide(text)
        if self._loggers is None or self._hooks is None:
            self._early.append((text, level))
            return
        # The reader may be gone, as `tee` is after Ctrl-C, or users' code has closed the stream; the run goes on, and saves what
        # it has.
        with suppress(OSError, ValueError):
            if not self._loggers.notice(text, level):
                print(f"{level}: {text}", file=sys.stderr)
        self._hooks.notice(Notice(text=strip_colours(text), level=level))

    def say(self, text: str) -> None:
        """Print a message at once: a service may take minutes to start, and the loggers are made later."""
        with suppress(OSError):
            print(self._secrets.hide(text), file=sys.stderr, flush=True)

    def show_progress(self, what: str, done: int, total: int) -> None:
        """Show progress, once there are loggers."""
        if self._loggers is not None:
            self._loggers.progress(what, done, total)

    def print_early(self) -> None:
        """Print the messages that waited for loggers that were never made."""
        if self._loggers is None:
            for text, level in self._early:
                with suppress(OSError, ValueError):
                    print(f"{level}: {text}", file=sys.stderr)
