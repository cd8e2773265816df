"""The small program that guards one started program: it starts it, and ends all of it when it is no longer needed.

It is run by its path and imports only the standard library and psutil: importing astuner would take longer than many programs
take to start. Its standard input is a pipe from the starter: one line of JSON says what to start, one more byte that the
record is written, and end of file that the starter is gone. A leased program outlives its starter, and is ended when its lease
was not touched for `idle_s` seconds. The guard leads its own session, so the terminal's Ctrl-C does not reach it.

A second process, the warden, only waits for the guard to end: if the guard was killed, the warden ends the program.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

STARTER, ANSWER = 0, 1
LOOK_S = 1.0
"""How often the guard polls: the lease, and a starter whose pipe is kept open by a fork."""
GRACE_S = 10.0
"""Time between SIGTERM and SIGKILL if no caller gives one."""
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Start the program described on standard input, and exit when it and all its children have ended."""
    order = json.loads(_read_line())
    members = _load_members()
    lifeline = _start_warden(order, members)
    wakeup = _catch_signals()
    try:
        program = _start(order)
    except OSError as error:
        _answer({"error": error.strerror or str(error), "at": error.filename})
        os.write(lifeline, b".")
        return
    why = "its guard failed"
    try:
        _answer({"program": program.pid})
        why = _watch(program, order, wakeup)
    finally:
        _finish(program, order, why, members)
        os.write(lifeline, b".")


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(STARTER, 65536)
        if not more:
            sys.exit(1)
        line += more
    return line


def _load_members() -> ModuleType:
    spec = importlib.util.spec_from_file_location("process_members", Path(__file__).with_name("process_members.py"))
    if spec is None or spec.loader is None:
        raise ImportError("process_members.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _answer(data: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(ANSWER, json.dumps(data).encode() + b"\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, ANSWER)
    os.close(null)


def _start_warden(order: dict[str, Any], members: ModuleType) -> int:
    """Fork the warden; return the guard's end of its pipe, on which the guard writes `.` when it ends normally."""
    guard = os.getpid()
    heard, lifeline = os.pipe()
    if os.fork():
        os.close(heard)
        return lifeline
    os.close(lifeline)
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, STARTER)
    os.dup2(null, ANSWER)
    if not os.read(heard, 1):
        _forget(order)
        members.end_members(lambda: members.find_members(order["id"], guard), GRACE_S)
        _sweep(order)
        _log_end(order, "its guard was killed")
    os._exit(0)


def _catch_signals() -> int:
    """Let signals and the end of the program wake the loop; return a descriptor that yields the signals' numbers."""
    readable, written = os.pipe()
    for end in (readable, written):
        os.set_blocking(end, False)
    for number in (*ENDING, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(written)
    # The starter's thread may have blocked some signals.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return readable


def _start(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    with Path(order["log"]).open("ab") as log:
        return subprocess.Popen(
            order["command"],
            cwd=order["cwd"],
            env={**os.environ, **order["env"]},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # A program that signals its own group must not reach the guard.
            process_group=0,
        )


def _watch(program: subprocess.Popen[bytes], order: dict[str, Any], wakeup: int) -> str:
    """Wait until the program has ended or must end; return the reason."""
    idle_s = order["idle_s"]
    look_s = LOOK_S if idle_s is None else min(LOOK_S, idle_s / 4)
    watched, recorded = [STARTER, wakeup], False
    touched, since = _read_touch_time(order), time.monotonic()
    while program.poll() is None:
        ready, _, _ = select.select(watched, [], [], look_s)
        if wakeup in ready and set(os.read(wakeup, 64)) & set(ENDING):
            return "it was asked to end"
        # Compared with the order: by now the starter may be gone already, and a fork of it still holds the pipe.
        gone = os.getppid() != order["starter"]
        if STARTER in ready:
            if os.read(STARTER, 64):
                recorded = True
            else:
                gone = True
                watched = [wakeup]
        if gone and not (order["leased"] and recorded):
            return "who started it is gone"
        # Measured by the change, not by the file's time: clocks are set, and machines sleep.
        if (now := _read_touch_time(order)) != touched:
            touched, since = now, time.monotonic()
        if idle_s is not None and time.monotonic() - since > idle_s:
            return f"it was not used for {idle_s:g} s"
    return "it ended"


def _read_touch_time(order: dict[str, Any]) -> int:
    try:
        return os.stat(order["lease"]).st_mtime_ns
    except OSError:
        return 0


def _finish(program: subprocess.Popen[bytes], order: dict[str, Any], why: str, members: ModuleType) -> None:
    if program.returncode is not None:
        _write_end(order, program.returncode, why)
    _forget(order)
    members.end_members(lambda: members.find_members(order["id"], os.getpid()), GRACE_S)
    if program.poll() is None:
        program.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(GRACE_S)
        _write_end(order, program.returncode, why)
    elif why != "it ended":
        _write_end(order, program.returncode, why)
    _sweep(order)
    _log_end(order, f"{why} (exit status {program.returncode})")


def _write_end(order: dict[str, Any], status: int | None, why: str) -> None:
    part = Path(order["ended"] + ".part")
    with contextlib.suppress(OSError):
        part.write_text(json.dumps({"status": status, "why": why}), encoding="utf-8")
        part.replace(order["ended"])


def _sweep(order: dict[str, Any]) -> None:
    if order["scratch"]:
        shutil.rmtree(order["scratch"], ignore_errors=True)


def _forget(order: dict[str, Any]) -> None:
    for path in (order["record"], order["lease"]):
        with contextlib.suppress(OSError):
            os.unlink(path)


def _log_end(order: dict[str, Any], why: str) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with contextlib.suppress(OSError), Path(order["log"]).open("a", encoding="utf-8") as log:
        log.write(f"--- {now} {order['what']}: {why}\n")


if __name__ == "__main__":
    main()
