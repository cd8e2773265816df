"""A child process that answers questions in lines of JSON, and is killed when it takes too long.

It is for code that cannot be interrupted. The program reads a line of JSON, and writes one, until its input ends; its first line
says that it is ready, as `{}`, or why it is not, as `{"error": …}`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from astuner.shared.processes import JsonLines, end_child

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "OMP_NUM_THREADS")
"""Environment variables that a child inherits: keys of services are not among them, since it may run what a model wrote."""

_START_TIMEOUT_S = 120.0
"""The child imports large libraries, which takes long on a busy machine."""


@frozen(kw_only=True)
class JsonProgram:
    """What a child runs."""

    path: Path
    """A Python file; it runs with this interpreter."""
    name: str
    """What messages call the program."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(factory=dict)
    """On top of the few inherited variables (`KEPT`)."""


class JsonChild:
    """Asks one question at a time. Thread-safe; the process starts when it is first needed, and again after it was killed."""

    def __init__(self, program: JsonProgram) -> None:
        self._program = program
        self._turn, self._guard = threading.Lock(), threading.Lock()
        self._process: _Process | None = None
        self._is_closed = False

    def ask(self, question: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """Return the answer. Raises `TimeoutError` if it is late, and `RuntimeError` if the process ends."""
        with self._turn:
            process = self._ensure_running()
            try:
                return process.ask(question, timeout_s)
            except BaseException:
                # Whatever happened, a late answer must not be taken for the next question's.
                with self._guard:
                    self._process = None
                process.kill()
                raise

    def restart(self) -> None:
        """End the process, whose answers cannot be trusted; the next question starts another."""
        with self._turn, self._guard:
            if self._process is not None:
                self._process.kill()
                self._process = None

    def close(self) -> None:
        """End the process, also in the middle of a question; waiting and later callers get a `RuntimeError`."""
        with self._guard:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def _ensure_running(self) -> _Process:
        with self._guard:
            if self._is_closed:
                raise RuntimeError(f"{self._program.name} is closed")
            if self._process is not None and self._process.has_more():
                # What it runs wrote lines of its own, one of which would be taken for the next answer.
                self._process.kill()
                self._process = None
            self._process = self._process or _Process(self._program)
            return self._process


class _Process:
    def __init__(self, program: JsonProgram) -> None:
        self._name = program.name
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: the directory of the program, a package, must not hide the modules that it imports.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(program.path), *program.arguments],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env={**{name: os.environ[name] for name in KEPT if name in os.environ}, **program.environment},
                # A Ctrl-C in the terminal is for the run, which may still ask it something.
                process_group=0,
            )
        self._lines = JsonLines(ours)
        self._is_ready = False
        self.kill = weakref.finalize(self, _end, self._process, self._lines)

    def ask(self, question: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        if not self._is_ready:
            self._await_ready()
        try:
            self._lines.send(question, timeout_s)
            return self._lines.receive(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"{self._name} gave no answer in {timeout_s:g} s") from None
        except OSError as error:
            raise self._make_end_error() from error

    def has_more(self) -> bool:
        """Whether it wrote more than the answers to its questions."""
        return self._is_ready and self._lines.has_more()

    def _await_ready(self) -> None:
        try:
            said = self._lines.receive(_START_TIMEOUT_S)
        except TimeoutError:
            raise RuntimeError(f"the process that runs {self._name} did not start in {_START_TIMEOUT_S:g} s") from None
        except OSError as error:
            raise self._make_end_error() from error
        if "error" in said:
            raise RuntimeError(f"{self._name} cannot be used: {said['error']}")
        self._is_ready = True

    def _make_end_error(self) -> RuntimeError:
        return RuntimeError(f"the process that runs {self._name} has ended (out of memory, or it was killed)")


def _end(process: subprocess.Popen[bytes], lines: JsonLines) -> None:
    end_child(process)
    lines.close()
