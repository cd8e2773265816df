"""A process in which the library of a tracking service lives, and how it is talked to.

Such libraries print, replace the handlers of signals and of the exit, keep threads and programs of their own, read and write in
the home directory, and wait for servers that may be gone. In a process of their own they can do all of that without the run
noticing.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.errors import PluginError
from astuner.processes.json_lines import JsonLines, end_child

GRACE_S = 5.0
"""How long a process that failed may take to save what it has, before it is killed."""


class WriterProcess:
    """One writer (`astuner_loggers.writers`), told in JSON lines what to write; it answers each of them."""

    def __init__(
        self, name: str, writer: str, *, directory: Path, log: Path, environment: Mapping[str, str], timeout_s: float
    ) -> None:
        """Start it in `directory`; what it prints is appended to `log`. Nothing is waited for."""
        self._name, self._log, self._timeout_s = name, log, timeout_s
        self._unanswered, self._broken, self._hangs = 0, "", False
        log.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        self._lines = JsonLines(ours)
        with theirs, log.open("ab") as output:
            self._process = subprocess.Popen(
                # Its directory may hold one that is named as a library is.
                [sys.executable, "-P", "-m", "astuner_loggers.writers", writer, str(theirs.fileno())],
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C is for the run alone, which then tells how it ended.
                start_new_session=True,
            )

    def post(self, do: str, **what: Any) -> None:
        """Send an order without waiting; that it failed is told by the next `ask`."""
        if self._broken:
            return
        try:
            self._lines.send({"do": do, **what}, self._timeout_s)
        except OSError as error:
            self._broken = self._note_failure(error, self._timeout_s)
        else:
            self._unanswered += 1

    def ask(self, do: str, *, within_s: float | None = None, **what: Any) -> None:
        """Send an order and wait until all is done; raises `PluginError` for what was not, and has then ended the process."""
        limit_s = self._timeout_s if within_s is None else min(within_s, self._timeout_s)
        deadline = time.monotonic() + limit_s
        self.post(do, **what)
        while self._unanswered and not self._broken:
            try:
                answer = self._lines.receive(deadline - time.monotonic())
            except OSError as error:
                self._broken = self._note_failure(error, limit_s)
            else:
                self._unanswered -= 1
                self._broken = answer.get("failed", "")
        if self._broken:
            self.end(0 if self._hangs else GRACE_S)
            raise PluginError(f"{self._broken}; what it printed is in {self._log}")

    def end(self, grace_s: float = GRACE_S) -> None:
        """Let it save what it has, and end it; nothing of it is left."""
        self._lines.close()
        end_child(self._process, grace_s)

    def _note_failure(self, error: OSError, limit_s: float) -> str:
        if isinstance(error, TimeoutError):
            self._hangs = True
            return f"{self._name} did not answer within {limit_s:g} s (option 'timeout_s')"
        return f"the process of {self._name} ended unexpectedly"
