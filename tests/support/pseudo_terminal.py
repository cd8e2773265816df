"""A program at a terminal of its own, typed to and read as a person would."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class PseudoTerminal:
    """Runs a command with stdin, stdout and stderr at a new terminal; a context manager that leaves no process behind."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], limit_s: float = 120) -> None:
        self._ours, theirs = pty.openpty()
        self._ends_at = time.monotonic() + limit_s
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**env, "TERM": "xterm", "COLUMNS": "120"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""
        self._read = 0

    def until(self, text: str) -> str:
        """Return what is shown from here up to a text, which has to come."""
        while text not in (new := self.shown[self._read :]):
            if not self._more():
                raise AssertionError(f"{text!r} never came; this did:\n{self.shown}")
        found = new[: new.index(text) + len(text)]
        self._read += len(found)
        return found

    def type(self, line: str) -> None:
        os.write(self._ours, line.encode())

    def end(self) -> int:
        """Wait for the end of the program and return its exit code."""
        while self._more():
            pass
        return self._process.wait(timeout=10)

    @property
    def shown(self) -> str:
        """Everything that was shown, without colours and movements."""
        return CONTROL.sub("", self.raw)

    def _more(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, self._ends_at - time.monotonic()))
        if not ready:
            self._process.kill()
            raise AssertionError(f"nothing came in time; before that:\n{self.shown}")
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)


def python(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, arguments)]
