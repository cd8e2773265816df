"""The process that instances are forked from: it has imported everything, does nothing else, and takes them all with it.

`python -m astuner_envs.server.zygote FD`: a line of JSON on the socket FD says what to load. Each further line is an order,
and is answered by one line. `{"fork": N}` comes with a socket, which becomes the new instance's; its process id is the answer.
`{"end": PID}` kills an instance where it still runs; how it ended is the answer. When the server is gone, however that went, the
socket ends, and so does everything here.
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
from pathlib import Path
from typing import Any

from astuner.errors import AstunerError
from astuner_envs.server.life import live
from astuner_envs.server.settings import Limits
from astuner_envs.server.world import World, load_world

LOOK_S = 1.0
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""


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
    # What was imported stays shared with every instance.
    gc.collect()
    gc.freeze()
    _answer(control, {"ready": [world.lists_tasks for world in worlds]})
    _Zygote(control, worlds, Limits(**order["limits"])).serve()


class _Zygote:
    def __init__(self, control: socket.socket, worlds: list[World], limits: Limits) -> None:
        self._control, self._worlds, self._limits = control, worlds, limits
        self._alive: set[int] = set()
        self._ended: dict[int, int] = {}
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def serve(self) -> None:
        try:
            while True:
                self._reap()
                if not select.select([self._control], [], [], LOOK_S)[0]:
                    continue
                line, given = _line(self._control)
                if not line:
                    return
                order = json.loads(line)
                answer = {"pid": self._fork(order["fork"], given)} if "fork" in order else {"status": self._end(order["end"])}
                _answer(self._control, answer)
        finally:
            for pid in tuple(self._alive):
                self._end(pid)

    def _fork(self, number: int, given: int | None) -> int:
        if given is None:
            raise RuntimeError("a fork comes with a socket")
        mine = os.getpid()
        pid = os.fork()
        if pid:
            os.close(given)
            self._alive.add(pid)
            return pid
        # Whatever happens from here on, this process never goes back to the orders above.
        try:
            if self._libc is not None:
                self._libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            if os.getppid() == mine:
                self._control.close()
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                live(socket.socket(fileno=given), self._worlds[number], self._limits)
        finally:
            os._exit(0)

    def _end(self, pid: int) -> int | None:
        """Return how an instance ended, as `subprocess` says it; None where there never was one. Only one of ours is killed."""
        if pid not in self._alive:
            return self._ended.pop(pid, None)
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        self._alive.discard(pid)
        return os.waitstatus_to_exitcode(status)

    def _reap(self) -> None:
        while self._alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._alive.discard(pid)
            self._ended[pid] = os.waitstatus_to_exitcode(status)


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
