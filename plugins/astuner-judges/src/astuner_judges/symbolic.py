"""Comparing symbolic answers with math-verify, in a child process that is killed when it takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import weakref
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue

_START_TIMEOUT_S = 60.0
"""The child imports sympy, which takes seconds on a busy machine."""


def is_available() -> bool:
    """Whether math-verify is installed; it is not imported."""
    return find_spec("math_verify") is not None


class SymbolicComparer:
    """Asks math-verify whether two expressions are equal. Thread-safe; one child at a time, started when first needed.

    An expression such as 9^(9^(9^9)) cannot be interrupted inside a process, so the process is killed and replaced.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def equal(self, gold: str, answer: str) -> bool:
        """Return the finding. Raises `TimeoutError` when there is none in time, and `RuntimeError` when math-verify fails."""
        with self._lock:
            child = self._child = self._child or _Child(self._timeout_s)
            try:
                return child.ask(gold, answer, self._timeout_s)
            except BaseException:
                # Whatever happened, an answer that comes late must not be taken for that of the next question.
                self._child = None
                child.kill()
                raise

    def close(self) -> None:
        """End the child."""
        with self._lock:
            if self._child is not None:
                self._child.kill()
                self._child = None


class _Child:
    def __init__(self, timeout_s: float) -> None:
        program = Path(__file__).with_name("symbolic_child.py")
        # -P: the directory of the program, this package, must not hide the modules that math-verify imports.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(program), str(timeout_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=_forward, args=(self._process, self._lines), name="math-verify", daemon=True).start()
        self.kill = weakref.finalize(self, _end, self._process)
        try:
            self._next_line(_START_TIMEOUT_S, "math-verify did not start")
        except BaseException:
            self.kill()
            raise

    def ask(self, gold: str, answer: str, timeout_s: float) -> bool:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([gold, answer]) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise RuntimeError("the process that runs math-verify has ended") from error
        found = json.loads(self._next_line(timeout_s, f"math-verify found nothing about {answer[:80]!r}"))
        if "error" in found:
            raise RuntimeError(f"math-verify failed on {answer[:80]!r}: {found['error']}")
        return bool(found["equal"])

    def _next_line(self, timeout_s: float, failure: str) -> str:
        try:
            line = self._lines.get(timeout=timeout_s)
        except Empty:
            raise TimeoutError(f"{failure} in {timeout_s:g} s") from None
        if not line:
            raise RuntimeError(f"{failure}: its process ended (out of memory, or math-verify cannot be imported)")
        return line


def _forward(process: subprocess.Popen[str], lines: SimpleQueue[str]) -> None:
    """Pass on what the child writes, and an empty line at its end: a pipe cannot be read with a deadline on every system."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
