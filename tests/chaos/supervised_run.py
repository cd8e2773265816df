"""A run under a supervisor: something is done to it at a moment, and what it leaves behind is looked at."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import psutil
from attrs import define, frozen
from harness import environment
from python_server import PythonServer

LONGEST_S = 300.0
"""After which a run counts as one that hangs, on a machine that is as busy as it likes."""
LAST_BREATH_S = 20.0
"""How long what a run has started may take to end after it: guards look once a second."""

MARK = "ASTUNER_CHAOS_MARK"

Moment = Callable[[Path], bool]
"""Whether a run, given its directory, has reached a moment."""


class Process(Protocol):
    """What is used of a process that runs."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


@frozen(kw_only=True)
class Ended:
    """How a run ended, and what it left."""

    code: int
    said: str
    left: Sequence[str]
    """Command lines of processes that are still there."""
    reached: bool
    """Whether the moment came before the end."""


@define
class Supervisor:
    """Starts the runs of one project."""

    server: PythonServer
    project: Path
    name: str = "calculator"

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.project / "launcher_record" / self.name

    def run(
        self,
        *settings: str,
        moment: Moment | None = None,
        strike: Callable[[Process], None] = lambda process: None,
        env: Mapping[str, str] | None = None,
        alone: Sequence[str] = (),
    ) -> Ended:
        """Run to the end, and strike once when the moment has come, at the earliest when the process has locked the run.

        Before that Python starts, whatever an earlier process has left: a signal is then answered by Python itself.
        `alone` is a command that starts an interpreter of its own, for what has to hold before the run begins.
        """
        mark = uuid.uuid4().hex
        arguments = ["-m", "astuner", "run", "--conf", "tune.yaml", *settings]
        variables = environment({**(env or {}), MARK: mark})
        directory, path = self.directory, self.project.parent / f"said-{mark}.txt"
        with path.open("wb") as said:
            if alone:
                process: Process = subprocess.Popen(
                    [*alone, *arguments], cwd=self.project, env=variables, stdout=said, stderr=said, start_new_session=True
                )
            else:
                process = self.server.start(
                    arguments, cwd=self.project, env=variables, output=(said, said), start_new_session=True
                )
        reached = False
        try:
            deadline = time.monotonic() + LONGEST_S
            while process.poll() is None:
                assert time.monotonic() < deadline, f"it hangs:\n{_read(path)}"
                if moment is not None and not reached and leads(process.pid, directory) and moment(directory):
                    reached = True
                    strike(process)
                time.sleep(0.002)
            deadline = time.monotonic() + LAST_BREATH_S
            while find_processes(process.pid, mark) and time.monotonic() < deadline:
                time.sleep(0.05)
            left = [" ".join(each.cmdline()) or each.name() for each in find_processes(process.pid, mark)]
        finally:
            for each in find_processes(process.pid, mark):
                each.kill()
        return Ended(code=process.wait(), said=_read(path), left=left, reached=reached)


def leads(session: int, run: Path) -> bool:
    """Return whether a process of a session has locked a run directory."""
    try:
        return os.getsid(int((run / "lock").read_text(encoding="utf-8"))) == session
    except (OSError, ValueError):
        return False


def find_processes(session: int, mark: str) -> list[psutil.Process]:
    """Return the processes of a session, and those that carry a mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = os.getsid(process.pid) == session or process.environ().get(MARK) == mark
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def send(*numbers: signal.Signals, pause_s: float = 0.3) -> Callable[[Process], None]:
    """Return a strike that sends signals, one after the other."""

    def strike(process: Process) -> None:
        for position, number in enumerate(numbers):
            if position:
                time.sleep(pause_s)
            if process.poll() is None:
                os.kill(process.pid, number)

    return strike


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
