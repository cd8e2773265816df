"""The process that instances are forked from: it imports everything, does nothing else, and they end with it.

`python -m astuner_envs.server.zygote FD`: a line of JSON on the socket FD says what to load. Each further line is an order,
and is answered by one line. `{"fork": N}` comes with the new instance's socket; the answer is its process id, or in `full` why
there is none. `{"end": PID}` kills an instance that still runs; the answer is how it ended. When the server ends, for whatever
reason, the socket ends, and so does everything here.

An instance leads its own session and group, which is killed with it: what an environment started ends with the instance. On
Linux, processes that left the group become children of this one when their parent ends, and are killed as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astuner.contract.errors import AstunerError
from astuner_envs.server.instance_process import serve_instance
from astuner_envs.server.served_environment import World, load_world
from astuner_envs.server.settings import Limits

LOOK_S = 1.0
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""
_ADOPT = 36
"""PR_SET_CHILD_SUBREAPER of Linux."""


def main() -> None:
    """Serve until the socket ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    order = json.loads(_line(control)[0] or b"{}")
    try:
        worlds = [load_world(one["name"], one["options"], Path(order["config_dir"])) for one in order["worlds"]]
        for world in worlds:
            world.warm_up()
    except Exception as error:  # noqa: BLE001  # the server says it to whoever started that
        text = str(error) if isinstance(error, AstunerError) else f"{type(error).__name__}: {error}"
        _answer(control, {"error": text, "exit_code": getattr(error, "exit_code", 1)})
        return
    # Imported memory stays shared with every instance.
    gc.collect()
    gc.freeze()
    _answer(control, {"ready": [world.lists_tasks for world in worlds]})
    _Zygote(control, worlds, Limits(**order["limits"])).serve()


class _Zygote:
    def __init__(self, control: socket.socket, worlds: list[World], limits: Limits) -> None:
        self._control, self._worlds, self._limits = control, worlds, limits
        self._alive: set[int] = set()
        # What the environments started during their warm-up is for all instances.
        self._helpers = frozenset(_children())
        self._ended: dict[int, int] = {}
        self._looked_s, self._has_forgotten = time.monotonic(), False
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        if self._libc is not None:
            self._libc.prctl(_ADOPT, 1, 0, 0, 0)

    def serve(self) -> None:
        try:
            while True:
                self._reap()
                self._look()
                if not select.select([self._control], [], [], LOOK_S)[0]:
                    continue
                line, given = _line(self._control)
                if not line:
                    return
                order = json.loads(line)
                answer = self._fork(order["fork"], given) if "fork" in order else {"status": self._end(order["end"])}
                _answer(self._control, answer)
        finally:
            for pid in tuple(self._alive):
                self._end(pid)
            self._kill_adopted()
            for pid in self._helpers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _fork(self, number: int, given: int | None) -> dict[str, Any]:
        if given is None:
            # The system drops the descriptor if this process is at its limit.
            return {"full": "too many open files"}
        mine = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(given)
            return {"full": error.strerror or str(error)}
        if pid:
            os.close(given)
            self._alive.add(pid)
            # An earlier instance may have had the same.
            self._ended.pop(pid, None)
            return {"pid": pid}
        # From here on, this process never returns to the orders above.
        try:
            os.setsid()
            if self._libc is not None:
                self._libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
                # An environment's background processes stay below its instance while that lives.
                self._libc.prctl(_ADOPT, 1, 0, 0, 0)
            if os.getppid() == mine:
                self._control.close()
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                serve_instance(socket.socket(fileno=given), self._worlds[number], self._limits)
        except BaseException:  # noqa: BLE001 - reported here, since nothing below this frame may continue
            traceback.print_exc()
        finally:
            os._exit(0)

    def _end(self, pid: int) -> int | None:
        """Return how an instance ended, as `subprocess` reports it; None for an unknown one. Only known ones are killed."""
        if pid not in self._alive:
            return self._ended.pop(pid, None)
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        self._forget(pid)
        return os.waitstatus_to_exitcode(status)

    def _reap(self) -> None:
        """Record which instances have ended on their own."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                if pid in self._alive:
                    self._forget(pid)
                    self._ended[pid] = os.waitstatus_to_exitcode(status)

    def _look(self) -> None:
        """Kill processes left by ended instances; not after each of them, since this scans all processes."""
        if self._has_forgotten and time.monotonic() - self._looked_s >= LOOK_S:
            self._looked_s = time.monotonic()
            # Without a free descriptor this must wait.
            with contextlib.suppress(OSError):
                self._kill_adopted()
                self._has_forgotten = False

    def _forget(self, pid: int) -> None:
        """Kill the group of an instance that has ended."""
        self._alive.discard(pid)
        self._has_forgotten = True
        # The number of a group with members is not reused; a group without members has nothing to kill.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def _kill_adopted(self) -> None:
        """Kill what ended instances had started in other groups."""
        while adopted := [pid for pid in _children() if pid not in self._alive | self._helpers]:
            for pid in adopted:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                # Its children are ours afterwards.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _children() -> Iterator[int]:
    """Yield the processes whose parent is this one; none if the system does not list them."""
    mine = os.getpid()
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        # Others may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # The program's name comes before, in brackets, and may hold anything.
            if name.isdecimal() and int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1]) == mine:
                yield int(name)


def _line(control: socket.socket) -> tuple[bytes, int | None]:
    """Return the next line and the descriptor that came with it; the server sends one at a time and waits for the answer."""
    text, found = b"", None
    while not text.endswith(b"\n"):
        try:
            part, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
        except ConnectionError:
            part, descriptors = b"", []
        if not part:
            return b"", None
        text += part
        found = descriptors[0] if descriptors else found
    return text, found


def _answer(control: socket.socket, answer: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        control.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
