"""Trinity's program under our run: its cluster, its environment, and what it says when it goes wrong."""

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

from astuner.errors import RunFailed, UsageError
from astuner.processes import ProgramHandle, launch
from astuner.processes.process_environment import export_variables
from astuner.protocols import Control, RunInfo
from astuner.services.ray import ADDRESS, check_answers, ray
from astuner.services.running import ServiceHost, run_services
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
"""What Trinity's processes log before they end, or wait, as if all were well."""
LOST = re.compile(r"Task \S+ failed:.*")
"""Of a task for a process that had died while it was idle: the reason stands in the line, and names no exception."""
DIED = re.compile(r"ActorDied|ActorUnavailable|Task \S+ failed:")
"""Of a process that played: Trinity forgets its task, and waits for it as long as a task may take."""
WAITING = re.compile(rb"Waiting for \d+ more experiences|\[scheduler\.py:\d+\].*( \| |-\+-)|\(autoscaler ")
"""What is logged again and again by those who wait: rows, what each runner does, resources that are not there."""
LOGGED = re.compile(r"^[A-Z]+ \d\d-\d\d [\d:]+ \[[\w.]+:\d+\] ?")
RAISED = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupted|Timeout|Failed|Lost)\b.*")
NOISE = re.compile(r"^\s*$|\(raylet\)|FutureWarning|UserWarning|DeprecationWarning|warnings\.warn")


@define(eq=False, kw_only=True)
class Program:
    """Trinity, started."""

    layout: Layout
    launched: ProgramHandle
    home: Path
    """Where Trinity's directories are."""
    limit_s: float
    """How long silence is borne."""
    _seen: int = 0
    _since: float = field(factory=time.monotonic)
    _read: dict[Path, int] = field(factory=dict)
    """How far each log was read; what an earlier attempt has left in one is not looked at."""
    _counted: int = 0
    """How far the log of what all print was read, and the lines that it has but for `WAITING`."""
    _lines: int = 0

    def poll(self) -> int | None:
        """Return how it ended; None while it lives. Raises `RunFailed` when nothing was written anywhere for too long."""
        status = self.launched.poll()
        if status is not None:
            return status
        written = self._count_written()
        if written != self._seen:
            self._seen, self._since = written, time.monotonic()
        elif time.monotonic() - self._since > self.limit_s:
            raise RunFailed(
                f"Trinity said nothing for {self.limit_s:g} s but that it waits, so it is given up. Finished episodes are kept: "
                f"go on with --resume; {SILENCE} sets another limit{self.read_last_lines()}"
            )
        return None

    def lift_limit(self) -> None:
        """Accept any silence: a server without requests logs nothing."""
        self.limit_s = math.inf

    def find_fault(self) -> str | None:
        """Return what Trinity's explorer or trainer logged as its error since the last call, in a line."""
        for path in find_logs(self.home):
            start = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                text = file.read().decode(errors="replace")
            if lost := LOST.search(text):
                self._read[path] = start + len(text.encode())
                return f"{path.stem}: {lost.group()[:400]}"
            if FAULTS.search(text):
                # The traceback may still be on its way.
                if not _find_exception(text) and self.launched.poll() is None:
                    continue
                self._read[path] = start + len(text.encode())
                return f"{path.stem}: {_find_exception(text) or FAULTS.search(text).group()}"  # type: ignore[union-attr]  # it was found
            self._read[path] = start + len(text.encode())
        return None

    def read_last_lines(self) -> str:
        """Return the end of what it printed."""
        lines = [line for line in self.launched.tail(200).splitlines() if not NOISE.search(line)]
        return f". The last lines of {self.layout.log}:\n" + "\n".join(lines[-LINES:]) if lines else ""

    def _count_written(self) -> int:
        """Return how much was written, apart from lines that only report waiting."""
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
        # A bar of progress is a line that is written over.
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
    """Start Trinity with the configuration that lies in the run directory; it is ended with the block.

    `home` is where its own directories are, `limit_s` how long it may say nothing.
    """
    before = {path: path.stat().st_size for path in find_logs(home)}
    words = [sys.executable, "-m", "astuner_trinity.launch", str(layout.config), str(layout.run)]
    env: Mapping[str, str] = {"PYTHONUNBUFFERED": "1"}
    launched = launch(words, kind="service", name="trinity", log=layout.log, cwd=Path.cwd(), env=env, directory=layout.run)
    try:
        yield Program(layout=layout, launched=launched, home=home, limit_s=limit_s, read=before)
    finally:
        launched.end(END_S)


def describe_foreign_cluster() -> str:
    """Say what is wrong with a cluster that takes connections and answers nothing."""
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
