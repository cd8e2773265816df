"""Trinity's program in our run: its cluster, its environment, and its errors."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from astuner.contract.errors import RunFailed, UsageError
from astuner.contract.protocols import Control, RunInfo
from astuner.shared.processes import ProgramHandle, ProgramSpec, export_variables, launch
from astuner.shared.services.ray import ADDRESS, check_answers, ray
from astuner.shared.services.running import ServiceHost, run_services
from astuner_trinity.cluster import adopt_cluster_gpus
from astuner_trinity.layout import Layout
from astuner_trinity.process_environment import SILENCE, Machine, check_versions, look_at_machine

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT = "ray://"
END_S = 20.0
LINES = 20
FAULTS = re.compile(
    r"Error in (Explorer|Trainer|scheduler loop)|Error during explorer preparation|Failed to create experience operators|"
    r"WorkflowRunner run task error|Task execution attempt \d+ failed|Task \S+ failed:"
)
"""Errors that Trinity's processes log before they end, or wait, as if nothing had happened."""
LOST = re.compile(r"Task \S+ failed:.*")
"""For a task of a process that died while idle: the line has the reason, and names no exception."""
DIED = re.compile(r"ActorDied|ActorUnavailable|Task \S+ failed:")
"""For a process that was playing: Trinity forgets its task, and waits for it until the task's time limit."""
WAITING = re.compile(rb"Waiting for \d+ more experiences|\[scheduler\.py:\d+\].*( \| |-\+-)|\(autoscaler ")
"""Repeated messages of waiting processes: rows, the state of each runner, missing resources."""
LOGGED = re.compile(r"^[A-Z]+ \d\d-\d\d [\d:]+ \[[\w.]+:\d+\] ?")
RAISED = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupted|Timeout|Failed|Lost)\b.*")
NOISE = re.compile(r"^\s*$|\(raylet\)|FutureWarning|UserWarning|DeprecationWarning|warnings\.warn")


@define(eq=False, kw_only=True)
class Program:
    """The running Trinity."""

    layout: Layout
    launched: ProgramHandle
    home: Path
    """The parent of Trinity's directories."""
    limit_s: float
    """The limit on silence."""
    _seen: int = 0
    _since: float = field(factory=time.monotonic)
    _read: dict[Path, int] = field(factory=dict)
    """How far each log was read, starting after the lines of earlier attempts."""
    _counted: int = 0
    """How far the common log was read, and its number of lines other than `WAITING`."""
    _lines: int = 0

    def poll(self) -> int | None:
        """Return how it ended; None while it lives. Raises `RunFailed` if nothing was written anywhere for too long."""
        status = self.launched.poll()
        if status is not None:
            return status
        written = self._count_written()
        if written != self._seen:
            self._seen, self._since = written, time.monotonic()
        elif time.monotonic() - self._since > self.limit_s:
            raise RunFailed(
                f"Trinity said nothing for {self.limit_s:g} s but that it waits, so it is given up. Finished episodes are kept: "
                f"continue with --resume; {SILENCE} sets another limit{self.read_last_lines()}",
                resumable=True,
            )
        return None

    def lift_limit(self) -> None:
        """Accept any silence: a server without requests logs nothing."""
        self.limit_s = math.inf

    def find_fault(self) -> str | None:
        """Return in one line the error that Trinity's explorer or trainer logged since the last call."""
        for path in find_logs(self.home):
            start = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                text = file.read().decode(errors="replace")
            if lost := LOST.search(text):
                self._read[path] = start + len(text.encode())
                return f"{path.stem}: {lost.group()[:400]}"
            if FAULTS.search(text):
                # The traceback may be incomplete.
                if not _find_exception(text) and self.launched.poll() is None:
                    continue
                self._read[path] = start + len(text.encode())
                return f"{path.stem}: {_find_exception(text) or FAULTS.search(text).group()}"  # type: ignore[union-attr]  # it was found
            self._read[path] = start + len(text.encode())
        return None

    def read_last_lines(self) -> str:
        """Return the end of its output."""
        lines = [line for line in self.launched.tail(200).splitlines() if not NOISE.search(line)]
        return f". The last lines of {self.layout.log}:\n" + "\n".join(lines[-LINES:]) if lines else ""

    def _count_written(self) -> int:
        """Return how much was written, except lines that only report waiting."""
        total = self._count_lines()
        for path in (*self.layout.records.glob("*.jsonl"), *self.layout.played.glob("*.jsonl")):
            try:
                total += path.stat().st_size
            except OSError:
                continue
        return total

    def _count_lines(self) -> int:
        try:
            with self.layout.log.open("rb") as file:
                file.seek(self._counted)
                text = file.read()
        except OSError:
            return self._lines
        whole = text[: text.rfind(b"\n") + 1]
        self._counted += len(whole)
        self._lines += sum(not WAITING.search(line) for line in whole.split(b"\n")[:-1])
        # A progress bar overwrites its line.
        return self._lines + text[len(whole) :].count(b"\r")


@contextmanager
def open_cluster(run: RunInfo, control: Control) -> Iterator[Machine]:
    """Start a Ray cluster, unless `RAY_ADDRESS` names one, with the environment of Trinity's processes."""
    check_versions()
    machine, variables = look_at_machine()
    with ExitStack() as stack:
        stack.enter_context(export_variables(variables))
        address = os.environ.get(ADDRESS, "")
        if address.startswith(CLIENT):
            raise UsageError(
                f"{ADDRESS} is {address}: Trinity is started as a program of this machine, and has to be in the cluster: "
                f"ray job submit --address http://HEAD:8265 -- astuner run …, or start it on a node and set {ADDRESS}=auto"
            )
        if address:
            check_answers(address)
            if machine.stand_in is None:
                machine = adopt_cluster_gpus(machine, address)
        else:
            place = ServiceHost(
                directory=run.directory,
                say=lambda text: control.notify(text, "info"),
                warn=control.notify,
                stopped=lambda: control.stop,
            )
            stack.enter_context(run_services({"ray": ray(run)}, place))
        yield machine


@contextmanager
def start_program(layout: Layout, home: Path, limit_s: float) -> Iterator[Program]:
    """Start Trinity with the configuration in the run directory; it ends with the block.

    `home` is the parent of its directories, `limit_s` the limit on silence.
    """
    before = {path: path.stat().st_size for path in find_logs(home)}
    words = [sys.executable, "-m", "astuner_trinity.launch", str(layout.config), str(layout.run)]
    env: Mapping[str, str] = {"PYTHONUNBUFFERED": "1"}
    launched = launch(
        ProgramSpec(command=words, kind="service", name="trinity", log=layout.log, cwd=Path.cwd(), env=env, directory=layout.run)
    )
    try:
        yield Program(layout=layout, launched=launched, home=home, limit_s=limit_s, read=before)
    finally:
        launched.end(END_S)


def describe_foreign_cluster() -> str:
    """Explain a cluster that accepts connections and does not answer."""
    mode = os.environ.get("RAY_AUTH_MODE", "none is set")
    return (
        f"the Ray cluster at {os.environ.get(ADDRESS, '?')} takes connections and refuses this process: its key (RAY_AUTH_TOKEN) "
        f"is another, or its RAY_AUTH_MODE (here: {mode}); Ray also reads ~/.ray/auth_token. Give this process what the cluster "
        f"was started with, or unset {ADDRESS} for a cluster of this run alone"
    )


def find_logs(home: Path) -> list[Path]:
    """Return the logs of Trinity's roles."""
    return sorted(home.glob("*/**/log/**/*.log"))


def _find_exception(text: str) -> str:
    """Return the last line that names an exception."""
    found = [match.group() for line in text.splitlines() if (match := RAISED.match(LOGGED.sub("", line).strip()))]
    return found[-1][:400] if found else ""
