"""The server's end of the zygote: starts and ends the processes of instances."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from attrs import asdict

from astuner.contract.errors import AstunerError
from astuner_envs.access_token import TOKEN
from astuner_envs.server.faults import InstanceLost, ServerFull
from astuner_envs.server.settings import Settings

START_S = 180.0
"""For importing what the environments need."""
ANSWER_S = 30.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A library's threads do not survive a fork."""


class Forking:
    """One zygote at a time; a new one is started after it died."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self.lists_tasks: tuple[bool, ...] = ()
        """By environment, once started: whether it lists its own tasks."""

    async def start(self) -> None:
        """Start the zygote; raises an `AstunerError` for an environment that cannot be loaded."""
        async with self._turn:
            await self._start()

    async def fork(self, world: int) -> tuple[int, socket.socket]:
        """Return the process id of a new instance and our end of its socket; raises `ServerFull` at the system's limit."""
        forking = asyncio.ensure_future(self._fork(world))
        try:
            # The answer is always read: it must not be taken for the next order's.
            return await asyncio.shield(forking)
        except asyncio.CancelledError:
            forking.add_done_callback(_hang_up)
            raise

    async def end(self, pid: int) -> int | None:
        """Kill an instance if it still runs; return how it ended, None if unknown."""
        return await asyncio.shield(asyncio.ensure_future(self._end(pid)))

    async def _fork(self, world: int) -> tuple[int, socket.socket]:
        async with self._turn:
            try:
                if self._process is None or self._process.poll() is not None:
                    await self._start()
                mine, theirs = socket.socketpair()
            except OSError as error:
                raise _full_fault(error) from error
            try:
                answer = await self._ask({"fork": world}, theirs)
                if "full" in answer:
                    raise ServerFull(f"no process can be started now ({answer['full']}); come again later")
            except BaseException:
                mine.close()
                raise
            finally:
                theirs.close()
            mine.setblocking(False)
            return answer["pid"], mine

    async def _end(self, pid: int) -> int | None:
        async with self._turn:
            try:
                return (await self._ask({"end": pid}))["status"]  # type: ignore[no-any-return]  # our own protocol
            except InstanceLost:
                # With the zygote, all that it forked has ended.
                return None

    async def close(self) -> None:
        """End the zygote, and with it every instance."""
        async with self._turn:
            await self._stop()

    async def _start(self) -> None:
        await self._stop()
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        with theirs:
            try:
                self._process = _launch(theirs)
            except BaseException:
                mine.close()
                raise
        self._control = mine
        settings = self._settings
        worlds = [{"name": world.component, "options": dict(world.options)} for world in settings.worlds]
        order = {"worlds": worlds, "config_dir": str(settings.config_dir), "limits": asdict(settings.limits)}
        try:
            answer = await self._ask(order, within_s=START_S)
        except InstanceLost as error:
            raise AstunerError(f"astuner env serve: {error}") from error
        if "error" in answer:
            failure = AstunerError(str(answer["error"]))
            failure.exit_code = int(answer["exit_code"])
            raise failure
        self.lists_tasks = tuple(answer["ready"])

    async def _ask(
        self, order: Mapping[str, Any], given: socket.socket | None = None, *, within_s: float = ANSWER_S
    ) -> dict[str, Any]:
        control = self._control
        if control is None:
            raise InstanceLost("the server is ending")
        loop, text, answer = asyncio.get_running_loop(), json.dumps(order).encode() + b"\n", b""
        if given is not None:
            try:
                socket.send_fds(control, [text], [given.fileno()])
            except ConnectionError:
                # The zygote is gone, as the read below will show.
                pass
            except OSError as error:
                # Nothing was sent, so no answer comes: only this request fails.
                raise _full_fault(error) from error
        try:
            async with asyncio.timeout(within_s):
                if given is None:
                    await loop.sock_sendall(control, text)
                while not answer.endswith(b"\n"):
                    part = await loop.sock_recv(control, 1 << 16)
                    if not part:
                        raise InstanceLost("the process that instances are forked from has ended")
                    answer += part
        except (OSError, TimeoutError) as error:
            # A late answer must not be taken for the next order's.
            await self._stop()
            raise InstanceLost(f"the process that instances are forked from does not answer ({error!r})") from error
        return json.loads(answer)  # type: ignore[no-any-return]  # our own protocol

    async def _stop(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                await asyncio.to_thread(process.wait, 10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)


def _full_fault(error: OSError) -> ServerFull:
    return ServerFull(f"no process can be started now ({error.strerror or error}); come again later")


def _hang_up(forking: asyncio.Future[tuple[int, socket.socket]]) -> None:
    """End an abandoned instance: it ends when its socket is closed."""
    if not forking.cancelled() and forking.exception() is None:
        forking.result()[1].close()


def _launch(theirs: socket.socket) -> subprocess.Popen[bytes]:
    inherited = {name: value for name, value in os.environ.items() if name != TOKEN}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "astuner_envs.server.zygote", str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        env={**inherited, **ONE_THREAD},
        # Ctrl-C in a terminal is for the server only.
        start_new_session=True,
    )


def _has_descriptor(stream: Any) -> bool:
    try:
        return isinstance(stream.fileno(), int)
    except (AttributeError, OSError):
        return False
