"""Starting a program under its guard."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from attrs import evolve, field, frozen

from astuner.contract.errors import AstunerError
from astuner.shared.private_files import make_private_directory, open_private
from astuner.shared.processes import process_members
from astuner.shared.processes.program_handle import ProgramHandle
from astuner.shared.processes.program_record import STATE_VARIABLE, Kind, Lease, ProgramRecord, RecordFiles, write_record
from astuner.shared.processes.program_registry import format_now, make_id

GUARD = Path(__file__).with_name("guard.py")


@frozen(kw_only=True)
class ProgramSpec:
    """A program to be started."""

    command: Sequence[str]
    kind: Kind
    name: str
    log: Path
    """Its output is appended to it."""
    cwd: Path | str = "."
    env: Mapping[str, str] = field(factory=dict)
    """On top of this process's environment."""
    directory: Path | str | None = None
    """Of the run that it belongs to."""
    port: int | None = None
    """This, `url` and `facts` are recorded for other processes."""
    url: str | None = None
    facts: Mapping[str, Any] = field(factory=dict)
    lease: Lease | None = None
    """Lets it outlive this process."""
    scratch: Path | None = None
    """A directory that is created before it starts and removed after it ends."""


def launch(program: ProgramSpec, hide: Callable[[str], str] = str) -> ProgramHandle:
    """Start a program that ends with this process, however it ends, unless leased; raises if it cannot be started.

    `hide` takes the secrets of a configuration out of what is recorded of the command.
    """
    started = _describe(program, hide)
    place = str(Path(program.cwd).absolute())
    files = RecordFiles.of(started.id)
    _make_directories(files.record.parent, program.log.parent)
    with open_private(program.log, "ab") as output:
        output.write(f"--- {started.started} {started.what} in {place}: {' '.join(started.command)}\n".encode())
        output.flush()
        started = evolve(started, log_start=output.tell())
        guard = _start_guard(started.id, output)
    order = {
        "id": started.id,
        "starter": os.getpid(),
        "what": started.what,
        "command": list(program.command),
        "cwd": place,
        "env": {**program.env, process_members.MARK: started.id},
        "log": started.log,
        "leased": program.lease is not None,
        "idle_s": program.lease.idle_s if program.lease else None,
        "record": str(files.record),
        "lease": str(files.lease),
        "ended": str(files.ended),
        "scratch": None if program.scratch is None else str(program.scratch.absolute()),
    }
    files.lease.touch(mode=0o600)
    try:
        if program.scratch is not None:
            program.scratch.mkdir(mode=0o700)
        pid = _hand_over(guard, order)
        started = evolve(started, pid=guard.pid, born=_read_birth(guard.pid), program=pid)
        write_record(started)
        # If it has ended already, `poll` returns the recorded status.
        with suppress(_StartFailed):
            _send(guard, b"\n")
    except BaseException as error:
        _close(guard)
        files.remove()
        if program.scratch is not None:
            shutil.rmtree(program.scratch, ignore_errors=True)
        if isinstance(error, _StartFailed):
            raise AstunerError(f"{started.what}: cannot start {program.command[0]!r} in {place}: {error}") from None
        raise
    # The caller may drop the handle; the thread still waits for the guard and keeps its pipe open.
    threading.Thread(target=guard.wait, name=f"guard {started.id}", daemon=True).start()
    return ProgramHandle(record=started, guard=guard)


def _describe(program: ProgramSpec, hide: Callable[[str], str]) -> ProgramRecord:
    from astuner.settings.config.secrets import redact_command

    return ProgramRecord(
        id=make_id(),
        kind=program.kind,
        name=program.name,
        pid=0,
        born=0.0,
        command=tuple(map(hide, redact_command(program.command))),
        directory=None if program.directory is None else str(program.directory),
        log=str(program.log.absolute()),
        started=format_now(),
        port=program.port,
        url=program.url,
        lease=program.lease,
        facts=dict(program.facts),
    )


def _make_directories(records: Path, logs: Path) -> None:
    try:
        make_private_directory(records)
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remedy = f"; set {STATE_VARIABLE} to a directory that can be written to" if error.filename != str(logs) else ""
        raise AstunerError(f"{error.filename}: {error.strerror}, so nothing can be started{remedy}") from error


def attach(record: ProgramRecord) -> ProgramHandle:
    """Return a handle on a program started by another process."""
    return ProgramHandle(record=record)


class _StartFailed(Exception):
    """The guard reported that the program did not start."""


def _start_guard(program: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # The modules in the guard's directory must not shadow those of the standard library.
        [sys.executable, "-P", str(GUARD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, process_members.MARK: f"guard:{program}"},
        start_new_session=True,
    )


def _hand_over(guard: subprocess.Popen[bytes], order: Mapping[str, Any]) -> int:
    """Give the guard its order and return the program's pid."""
    _send(guard, json.dumps(order).encode() + b"\n")
    assert guard.stdout is not None
    with guard.stdout as answers:
        answer = answers.readline()
    if not answer:
        raise _StartFailed("its guard failed; the log says why")
    reply = json.loads(answer)
    if "error" in reply:
        raise _StartFailed(f"{reply['error']}: {reply['at']}" if reply["at"] else reply["error"])
    pid: int = reply["program"]
    return pid


def _send(guard: subprocess.Popen[bytes], data: bytes) -> None:
    assert guard.stdin is not None
    try:
        guard.stdin.write(data)
        guard.stdin.flush()
    except BrokenPipeError:
        raise _StartFailed("its guard failed; the log says why") from None


def _close(guard: subprocess.Popen[bytes]) -> None:
    """End the guard by closing its pipe; it ends its program, if any, and exits."""
    assert guard.stdin is not None
    # Closing flushes what could not be written before.
    with suppress(BrokenPipeError):
        guard.stdin.close()
    guard.wait()


def _read_birth(pid: int) -> float:
    import psutil

    return psutil.Process(pid).create_time()
