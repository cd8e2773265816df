"""Workers as processes of this machine, each under its guard."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field

from astuner.contract.errors import RunFailed
from astuner.shared.processes import ProgramHandle, ProgramSpec, launch
from astuner_rollout_workers.message_channel import MessageChannel, StreamChannel

LOOK_S = 0.2
"""How often a starting worker is looked at."""
LINES = 15
"""Lines of its log in an error."""


@define(eq=False, kw_only=True)
class LocalWorker:
    """A worker's process, and the connection to it."""

    channel: MessageChannel
    program: ProgramHandle
    same_machine: bool = True

    async def end(self, grace_s: float) -> None:
        """Wait until it has ended, for at most the grace, and end it."""
        until = asyncio.get_running_loop().time() + grace_s
        while self.program.poll() is None and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(LOOK_S / 4)
        self.channel.close()
        await asyncio.to_thread(self.program.end, 0.5)

    def explain(self) -> str:
        """Describe how it ended."""
        return _explain_end(self.program)


@define(eq=False)
class LocalWorkerStarter:
    """Starts processes that connect to a socket in a directory that only this user can enter."""

    directory: Path
    """The run directory."""
    _server: asyncio.Server | None = field(default=None, init=False)
    _home: str = field(default="", init=False)
    _awaited: dict[int, asyncio.Future[StreamChannel]] = field(factory=dict, init=False)
    _takers: dict[StreamChannel, tuple[Callable[[Any], None], Callable[[], None]]] = field(factory=dict, init=False)

    async def start(self, number: int, receive: Callable[[Any], None], lose: Callable[[], None]) -> LocalWorker:
        """Start a process, and return once it has connected."""
        await self._listen()
        connected = self._awaited[number] = asyncio.get_running_loop().create_future()
        command = [sys.executable, "-m", "astuner_rollout_workers.program", f"{self._home}/workers", str(number)]
        log = self.directory / "logs" / f"rollout-worker-{number}.log"
        spec = ProgramSpec(command=command, kind="service", name=f"rollout-worker-{number}", log=log, directory=self.directory)
        launching = asyncio.to_thread(launch, spec)
        program = await _await_launch(asyncio.ensure_future(launching))
        try:
            while not connected.done() and program.poll() is None:
                await asyncio.wait([connected], timeout=LOOK_S)
            if not connected.done():
                raise RunFailed(f"rollout worker {number} did not start: {_explain_end(program)}")
        except BaseException:
            await asyncio.shield(asyncio.to_thread(program.end, 0.5))
            raise
        finally:
            del self._awaited[number]
        channel = connected.result()
        self._takers[channel] = (receive, lose)
        return LocalWorker(channel=channel, program=program)

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None
            shutil.rmtree(self._home, ignore_errors=True)

    async def _listen(self) -> None:
        if self._server is None:
            self._home = tempfile.mkdtemp(prefix="astuner-")
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(lambda: StreamChannel(self._take, self._lose), f"{self._home}/workers")

    def _take(self, channel: StreamChannel, message: Any) -> None:
        if channel in self._takers:
            self._takers[channel][0](message)
        elif (connected := self._awaited.get(message)) is not None:
            connected.set_result(channel)

    def _lose(self, channel: StreamChannel) -> None:
        if channel in self._takers:
            self._takers.pop(channel)[1]()


async def _await_launch(launching: asyncio.Future[ProgramHandle]) -> ProgramHandle:
    """Return the launched program; end it if the caller was cancelled."""
    try:
        return await asyncio.shield(launching)
    except asyncio.CancelledError:
        await asyncio.to_thread((await launching).end, 0.5)
        raise


def _explain_end(program: ProgramHandle) -> str:
    status, tail = program.poll(), program.tail(LINES)
    how = "its connection broke" if status is None else f"exit status {status}"
    return f"{how}; last lines of {program.record.log}:\n{tail}" if tail else f"{how}; its log is {program.record.log}"
