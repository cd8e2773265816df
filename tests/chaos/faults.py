"""What can happen to a run, and how the run has to end."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from attrs import frozen
from supervised_run import Process, send

Strike = Callable[[Process], None]


@frozen(kw_only=True)
class Fault:
    """A strike, and what must follow."""

    strike: Callable[[Path], Strike]
    """Given the run directory."""
    codes: frozenset[int]
    """Exit codes that are right."""
    words: tuple[str, ...] = ()
    """What the run says, in any case of letters."""
    mend: Callable[[Path], None] = lambda run: None
    """Takes away what stands in the way of a resume."""
    ends: bool = True
    """Whether the run ends by it."""
    alone: tuple[str, ...] = ()
    """Starts the run, in place of the process that forks commands."""


def limit(which: int, find: Callable[[psutil.Process], int]) -> Callable[[Path], Strike]:
    """Lower a limit of the process, to what it uses at this moment."""

    def prepare(run: Path) -> Strike:
        def strike(process: Process) -> None:
            found = find(psutil.Process(process.pid))
            _, hard = resource.prlimit(process.pid, which)
            resource.prlimit(process.pid, which, (found, hard))

        return strike

    return prepare


def forbid_writing(run: Path) -> Strike:
    """Take the right to write from every directory and file of the run."""

    def strike(process: Process) -> None:
        for path in (*run.rglob("*"), run):
            path.chmod(0o500 if path.is_dir() else 0o400)

    return strike


def allow_writing(run: Path) -> None:
    """Give it back."""
    run.chmod(0o700)
    for path in run.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def pause(process: Process) -> None:
    """Stop the process for a moment, as a laptop that is closed does."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(process.pid, signal.SIGCONT)


ROOM_FOR_WORDS = 2048
"""What the run says goes to a file too, and must fit; no record and no configuration is as short."""


def largest_file(run: Path) -> int:
    """Return the size of the largest file that is appended to: the next record does not fit any more."""
    return max([ROOM_FOR_WORDS, *(path.stat().st_size + 1 for path in run.rglob("*.jsonl"))])


def fill_disk(run: Path) -> Strike:
    """Let no file grow beyond the largest there is, which fails as a full disk does."""
    return lambda process: resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest_file(run), resource.RLIM_INFINITY))


def delete(name: str) -> Callable[[Path], Strike]:
    """Delete a directory of the run; "" is the run itself. It is gone at once, whatever the run writes meanwhile."""

    def prepare(run: Path) -> Strike:
        def strike(process: Process) -> None:
            shutil.rmtree((run / name).rename(run.with_name("deleted")))

        return strike

    return prepare


WITHOUT_RIGHTS = (
    sys.executable,
    "-c",
    # Root obeys the modes of files without CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH and FOWNER; 24 is PR_CAPBSET_DROP.
    "import ctypes, os, sys\n"
    "for capability in range(4): ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])",
    sys.executable,
)
"""Starts a program that the modes of files hold for."""

FAULTS: Mapping[str, Fault] = {
    "kill": Fault(strike=lambda run: send(signal.SIGKILL), codes=frozenset({-9})),
    "terminate": Fault(strike=lambda run: send(signal.SIGTERM), codes=frozenset({130}), words=("--resume",)),
    "terminate_twice": Fault(strike=lambda run: send(signal.SIGTERM, signal.SIGTERM), codes=frozenset({130, -15})),
    "interrupt": Fault(strike=lambda run: send(signal.SIGINT), codes=frozenset({130}), words=("--resume",)),
    "interrupt_twice": Fault(strike=lambda run: send(signal.SIGINT, signal.SIGINT), codes=frozenset({130, -2})),
    "pause": Fault(strike=lambda run: pause, codes=frozenset({0}), ends=False),
    "full_disk": Fault(strike=fill_disk, codes=frozenset({1}), words=("--resume",)),
    "read_only": Fault(
        strike=forbid_writing,
        codes=frozenset({1}),
        words=("permission denied",),
        mend=allow_writing,
        alone=WITHOUT_RIGHTS,
    ),
    "no_descriptors": Fault(
        strike=limit(resource.RLIMIT_NOFILE, lambda process: max(each.fd for each in process.open_files()) + 1),
        codes=frozenset({0, 1}),
    ),
    "no_memory": Fault(
        strike=limit(resource.RLIMIT_AS, lambda process: process.memory_info().vms + (16 << 20)),
        # The C library ends a process with 127 if it has no memory for the data of a thread.
        codes=frozenset({0, 1, 127}),
    ),
}
