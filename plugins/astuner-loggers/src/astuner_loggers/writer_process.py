"""A process for the library of a tracking service, and the messages to it.

Such libraries print, replace the handlers of signals and of the exit, keep threads and programs, read and write in
the home directory, and wait for servers that may be gone. In a separate process they do not affect the run.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.contract.errors import PluginError
from astuner.shared.private_files import open_private
from astuner.shared.processes import JsonLines, end_child

GRACE_S = 5.0
"""How long a failed process may take to save its data before it is killed."""


class WriterProcess:
    """One writer (`astuner_loggers.writers`), which answers each order, a line of JSON."""

    def __init__(
        self, name: str, writer: str, *, directory: Path, log: Path, environment: Mapping[str, str], timeout_s: float
    ) -> None:
        """Start it in `directory`; its output is appended to `log`. Does not wait."""
        self._name, self._log, self._timeout_s = name, log, timeout_s
        self._unanswered, self._broken, self._hangs = 0, "", False
        log.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        self._lines = JsonLines(ours)
        with theirs, open_private(log, "ab") as output:
            self._process = subprocess.Popen(
                # Its directory may contain one with the name of a library.
                [sys.executable, "-P", "-m", "astuner_loggers.writers", writer, str(theirs.fileno())],
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C is for the run only, which then reports how it ended.
                start_new_session=True,
                # What the library writes is for its user alone.
                umask=0o077,
            )

    def post(self, do: str, **what: Any) -> None:
        """Send an order without waiting; the next `ask` reports its failure."""
        if self._broken:
            return
        try:
            self._lines.send({"do": do, **what}, self._timeout_s)
        except OSError as error:
            self._broken = self._note_failure(error, self._timeout_s)
        else:
            self._unanswered += 1

    def ask(self, do: str, *, within_s: float | None = None, **what: Any) -> None:
        """Send an order and wait until all are done; on a failure ends the process and raises `PluginError`."""
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
        """Let it save its data, and end it completely."""
        self._lines.close()
        end_child(self._process, grace_s)

    def _note_failure(self, error: OSError, limit_s: float) -> str:
        if isinstance(error, TimeoutError):
            self._hangs = True
            return f"{self._name} did not answer within {limit_s:g} s (option 'timeout_s')"
        return f"the process of {self._name} ended unexpectedly"
