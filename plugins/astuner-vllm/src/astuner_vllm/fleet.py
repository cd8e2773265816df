"""Several servers as one: sessions stay with their prefixes, dead servers are replaced, and all serve the same weights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

from attrs import define, field

from astuner.contract.errors import AstunerError
from astuner.contract.schema import Chunk, Request
from astuner_vllm.client import ServerClient, WeightSync
from astuner_vllm.failures import Refused, ServerError, ServerLost, ServerSilent
from astuner_vllm.member import Member
from astuner_vllm.server import Say
from astuner_vllm.weights import StoredWeights, place_for, store_weights

RESETS = 3
"""How often a request is retried if its connection breaks before any of its answer was used."""
RESET_PAUSE_S = 0.1


@define(eq=False, kw_only=True)
class Fleet:
    """The servers of a run. Lives in one event loop."""

    members: Sequence[Member]
    say: Say
    max_restarts: int
    """Limit for all servers together."""
    sync: WeightSync
    directory: Path
    """The run directory."""
    dtype: str | None = None
    """The servers' precision."""
    _sessions: dict[str, Member] = field(factory=dict, init=False)
    _weights: tuple[Any, int] | None = field(default=None, init=False)
    """The weights for a restarted server, with their version."""
    _running: asyncio.Event = field(factory=asyncio.Event, init=False)
    _paused: bool = field(default=False, init=False)
    _exchanging: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _changed: asyncio.Event = field(factory=asyncio.Event, init=False)
    _restarts: int = field(default=0, init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False)
    _closed: bool = field(default=False, init=False)

    async def open(self) -> None:
        """Start all servers; if one fails, ends the others and raises."""
        starting = [asyncio.ensure_future(member.start(self.say)) for member in self.members]
        try:
            await asyncio.gather(*starting)
        except BaseException:
            for one in starting:
                one.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await self.close()
            raise
        self._running.set()
        self._begin(self._watch())

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the tokens of a request.

        A connection that breaks before anything was yielded is made again, to this or another server. Later the call fails;
        if that ends the episode, `rollout.max_retries` plays it again.
        """
        attempt, given = 0, False
        while True:
            member = await self._place(request.session)
            client = member.client
            member.load += 1
            try:
                async with aclosing(client.generate(request)) as stream:
                    async for chunk in stream:
                        given = True
                        yield chunk
                return
            except (ServerLost, Refused) as error:
                if isinstance(error, Refused) and not await _is_dead(client, error):
                    raise
                attempt += 1
                await self._check_member(member, client, error)
                if given or attempt > RESETS or self._closed:
                    raise
                await asyncio.sleep(RESET_PAUSE_S)
            finally:
                member.load -= 1

    def list_clients(self) -> list[ServerClient]:
        """Return the clients of the servers that accept requests."""
        return [member.client for member in self.members if member.up]

    def release(self, session: str) -> None:
        """Forget a session's server."""
        member = self._sessions.pop(session, None)
        if member is not None:
            member.sessions -= 1

    async def update(self, ref: Any, version: int) -> None:
        """Let all servers serve new weights: all are paused before the first one gets any, and continue when all have them."""
        async with self._exchanging:
            self._running.clear()
            self._weights = (ref, version)
            try:
                await self._exchange([member for member in self.members if member.up])
            finally:
                if not self._paused:
                    self._running.set()
        if all(member.failed for member in self.members):
            raise self._no_server_error()

    def pause(self) -> None:
        """Start no new request."""
        self._paused = True
        self._running.clear()

    def resume(self) -> None:
        """Start requests again."""
        self._paused = False
        if not self._exchanging.locked():
            self._running.set()

    async def close(self) -> None:
        """End our servers, and every request."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._running.set()
        self._tell()
        await asyncio.gather(*(member.close() for member in self.members))

    async def _place(self, session: str) -> Member:
        """Return the server of a session: the one that it had, else the one with the fewest sessions."""
        while True:
            await self._running.wait()
            if self._closed:
                raise ServerLost("the engine was closed")
            member = self._sessions.get(session)
            if member is not None and member.up:
                return member
            living = [member for member in self.members if member.up]
            if living:
                self.release(session)
                member = min(living, key=lambda one: (one.sessions, one.load))
                self._sessions[session] = member
                member.sessions += 1
                return member
            if all(member.failed for member in self.members):
                raise self._no_server_error()
            if not any(member.plan for member in self.members):
                raise ServerLost(f"{', '.join(member.name for member in self.members)}: cannot be reached")
            await self._changed.wait()

    async def _watch(self) -> None:
        """Detect servers that ended."""
        while True:
            for member in self.members:
                if member.up and (status := member.exit_status()) is not None:
                    self._mark_lost(member, f"it ended with status {status}")
            await asyncio.sleep(0.5)

    async def _check_member(self, member: Member, client: ServerClient, error: ServerError) -> None:
        """Check whether a broken connection means a lost server."""
        if not member.up or member.client is not client or self._closed:
            return
        if isinstance(error, ServerSilent) or not await client.is_healthy():
            self._mark_lost(member, str(error))

    def _mark_lost(self, member: Member, why: str) -> None:
        if member.up and not self._closed:
            member.up = False
            self._begin(self._revive(member, why))

    async def _revive(self, member: Member, why: str) -> None:
        """Restore a lost server, with the weights of the others."""
        try:
            while True:
                if member.plan is not None:
                    if self._restarts >= self.max_restarts:
                        member.failed = f"{member.name} was lost: {why}"
                        return
                    self._restarts += 1
                    count = f"{self._restarts} of {self.max_restarts}"
                    self.say(f"{member.name} was lost: {why}. It is started again ({count}).", "warning")
                try:
                    await member.start_again(self.say)
                    async with self._exchanging:
                        try:
                            served = await self._exchange([member])
                        finally:
                            # The exchange of weights resumes it.
                            if not self._paused:
                                self._running.set()
                    if served:
                        member.up = True
                        return
                    why = "it was lost again"
                except AstunerError as error:
                    why = str(error)
                    if member.plan is None and isinstance(error, Refused):
                        member.failed = f"{member.name} came back, and cannot be used: {why}"
                        self.say(member.failed, "warning")
                        return
        except Exception as error:
            member.failed = f"{member.name} was lost, and could not be brought back: {type(error).__name__}: {error}"
            raise
        finally:
            self._tell()

    async def _exchange(self, members: Sequence[Member]) -> list[Member]:
        """Give servers the current weights, and return those that have them; raises if one refuses."""
        if self._weights is None or not members:
            return list(members)
        ref, version = self._weights
        refs = ref if isinstance(ref, Mapping) else {"": ref}
        local = all(member.client.loopback for member in members)

        async def load(member: Member, stored: Mapping[str, StoredWeights]) -> None:
            adapters = {tag: one.directory for tag, one in stored.items() if one.adapter}
            if adapters:
                # A whole model beside them is the base, which answers where no adapter does.
                await member.client.load_adapters(adapters, version)
            else:
                await member.client.load_weights(stored[""].directory, version)

        async with AsyncExitStack() as stack:
            stored = {
                tag: await stack.enter_async_context(
                    store_weights(one, place_for(one, self.directory, same_machine=local), dtype=self.dtype)
                )
                for tag, one in refs.items()
            }
            reached = members
            try:
                reached = await self._run_on_each(reached, lambda member: member.client.pause(self.sync))
                reached = await self._run_on_each(reached, lambda member: load(member, stored))
            finally:
                reached = await self._run_on_each(reached, lambda member: member.client.resume())
        return list(reached)

    async def _run_on_each(self, members: Sequence[Member], act: Callable[[Member], Awaitable[None]]) -> Sequence[Member]:
        """Run an action on all servers at once, and return the reachable ones."""

        async def reach(member: Member) -> None:
            try:
                await act(member)
            except ServerLost:
                # Connections also break, or time out, on a busy machine.
                if not await member.client.is_healthy():
                    raise
                await act(member)

        outcomes = await asyncio.gather(*map(reach, members), return_exceptions=True)
        for member, outcome in zip(members, outcomes, strict=True):
            dead = isinstance(outcome, Refused) and await _is_dead(member.client, outcome)
            if dead or isinstance(outcome, ServerLost):
                self._mark_lost(member, str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
        return [member for member, outcome in zip(members, outcomes, strict=True) if outcome is None]

    def _no_server_error(self) -> ServerError:
        reasons = "; ".join(str(member.failed) for member in self.members)
        return ServerError(f"no vLLM server is left (rollout.vllm.max_restarts = {self.max_restarts}): {reasons}")

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _is_dead(client: ServerClient, error: Refused) -> bool:
    """Whether a server answers with errors because its engine has died; it exits some seconds later."""
    return error.status >= 500 and not await client.is_healthy()
