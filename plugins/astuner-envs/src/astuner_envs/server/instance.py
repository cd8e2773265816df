"""One instance, as the server sees it: a process, a socket, and the requests so far."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Mapping
from typing import Any

from attrs import asdict

from astuner.contract.schema import Task
from astuner_envs.server.faults import BadRequest, Fault, InstanceLost, WorldFailed
from astuner_envs.server.forking import Forking
from astuner_envs.server.instance_process import CLOSE_S
from astuner_envs.server.settings import Limits

LONGEST_LINE = 64 << 20
"""Most bytes in one answer of an environment."""


class Channel:
    """A process forked for one environment; it takes one request at a time."""

    def __init__(self, forking: Forking, limits: Limits) -> None:
        self._forking, self._limits = forking, limits
        self._pid: int | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._turn, self._asked = asyncio.Lock(), 0
        self._ending = False
        self.lost = ""
        """Why the process ended; empty while it runs, or before it was forked."""

    async def open(self, world: int) -> None:
        """Fork the process."""
        self._pid, ours = await self._forking.fork(world)
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
        except BaseException:
            # The process ends with its socket.
            ours.close()
            raise
        if self._ending:
            await self.end()

    async def ask(self, do: str, **more: Any) -> Any:
        """Return the environment's answer; raises a `Fault`. A process that takes too long is ended."""
        async with self._turn:
            if self._reader is None or self._writer is None or self.lost:
                raise InstanceLost(self.lost or "it was released")
            self._asked += 1
            try:
                async with asyncio.timeout(self._limits.step_timeout_s):
                    self._writer.write(json.dumps({"do": do, "number": self._asked, **more}).encode() + b"\n")
                    await self._writer.drain()
                    line = await self._answer(self._reader, self._asked)
            except TimeoutError:
                await self._lose(f"{do} took longer than {self._limits.step_timeout_s:g} s, so its process was ended")
            except ConnectionError:
                await self._lose()
            except (OSError, ValueError) as error:
                await self._lose(f"its process could not be spoken to: {error!r}")
            if not line:
                await self._lose()
        answer = json.loads(line)
        if "error" not in answer:
            return answer["found"]
        raise (BadRequest if answer["bad"] else WorldFailed)(answer["error"])

    async def _answer(self, reader: asyncio.StreamReader, number: int) -> bytes:
        """Return the answer with that number, empty at the end; answers to cancelled requests come before it."""
        while (line := await reader.readline()) and json.loads(line)["number"] != number:
            pass
        return line

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended on its own."""
        return self._reader is not None and self._reader.at_eof()

    async def end(self) -> None:
        """End the process; it closes the environment first, unless that is busy."""
        self._ending = True
        if self._reader is None or self.lost:
            return
        if not self._turn.locked() and not self.has_ended:
            try:
                async with asyncio.timeout(CLOSE_S + 1):
                    await self.ask("close")
            except (Fault, TimeoutError):
                # It is killed below, like a busy one.
                pass
        if not self.lost:
            await self._mark_gone("it was released")

    async def _lose(self, why: str = "") -> None:
        raise InstanceLost(await self._mark_gone(why))

    async def _mark_gone(self, why: str) -> str:
        pid, self._pid = self._pid, None
        status = None if pid is None else await self._forking.end(pid)
        if not self.lost:
            self.lost = ("it was released" if self._ending else why) or _describe_end(status, self._limits)
        if self._writer is not None:
            self._writer.close()
        return self.lost


class Instance:
    """Belongs to one client, which may send several requests at once; steps are taken one after the other."""

    def __init__(self, *, instance_id: str, world: int, task: Task, channel: Channel) -> None:
        self.id, self.world, self.task, self.channel = instance_id, world, task, channel
        self.steps, self.is_terminated = 0, False
        self._last: tuple[int, Mapping[str, Any], Mapping[str, Any] | Fault] | None = None
        self._turn = asyncio.Lock()
        self.used_s = time.monotonic()
        self.busy = 0
        """Requests under way."""

    async def begin(self) -> Mapping[str, Any]:
        """Fork the process, make the environment and reset it; return the first state."""
        await self.channel.open(self.world)
        found = await self.channel.ask("begin", task=asdict(self.task), instance_id=self.id)
        info: dict[str, Any] = {"instance_id": self.id, "task_id": self.task.task_id, "repeatable_steps": True}
        if found["tools"]:
            info["tools"] = found["tools"]
        return {"state": found["messages"], "reward": 0.0, "is_terminated": False, "info": info}

    async def step(self, action: Mapping[str, Any], number: int | None) -> Mapping[str, Any]:
        """Act; a step with the number of the last one gets the same answer, and is not taken again.

        Numbers grow, with gaps: a client that gave up on a step does not know whether it arrived.
        """
        async with self._turn:
            if number is not None and self._last is not None and number <= self._last[0]:
                if (number, action) != self._last[:2]:
                    raise BadRequest(f"step {number} does not follow step {self._last[0]}, which was taken already")
                return _raise_fault(self._last[2])
            if self.is_terminated:
                raise BadRequest("the episode is over: create another instance")
            try:
                answer: Mapping[str, Any] | Fault = await self._step(action)
            except Fault as fault:
                answer = fault
            self.steps += 1
            if number is not None:
                self._last = (number, action, answer)
            return _raise_fault(answer)

    async def _step(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        found = await self.channel.ask("step", action=action)
        self.is_terminated = found["done"]
        tools = {"tools": found["tools"]} if found["tools"] else {}
        return {
            "state": found["messages"],
            "reward": found["reward"],
            "is_terminated": found["done"],
            "info": {**tools, **found["info"]},
        }


def _raise_fault(answer: Mapping[str, Any] | Fault) -> Mapping[str, Any]:
    if isinstance(answer, Fault):
        raise answer
    return answer


def _describe_end(status: int | None, limits: Limits) -> str:
    if status == -signal.SIGXCPU:
        return f"its process used up its {limits.cpu_s} s of processor time"
    if status == -signal.SIGKILL:
        return "its process was killed, perhaps for want of memory"
    return f"its process has ended (exit status {status})" if status is not None else "its process has ended"
