"""The way of another process to the servers of a run: their addresses, keys and present weights."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner_vllm.failures import ServerLost

if TYPE_CHECKING:
    from astuner_vllm.client import ServerClient


@frozen(kw_only=True)
class ServerAddress:
    """One server as a client sees it."""

    url: str
    model: str | None
    adapters: Mapping[str, str]
    """The names of its adapters, by the target tag that they answer."""
    vocab_size: int | None
    silence_s: float
    api_key: str | None = field(repr=False)
    salt: int
    version: int
    """Of the weights that it serves."""
    label: str
    """The server's name for them."""
    loopback: bool


@frozen(kw_only=True)
class ServerAccess:
    """The servers that are up; the original engine replaces those that are lost."""

    servers: tuple[ServerAddress, ...]
    capabilities: Capabilities

    @property
    def same_machine(self) -> bool:
        """Whether only processes of this machine reach them."""
        return any(server.loopback for server in self.servers)

    def open(self) -> WorkerEngine:
        """Make an engine over these servers."""
        return WorkerEngine(self)


@define(eq=False)
class WorkerEngine:
    """Generates on servers that another process has started; a session stays on one of them."""

    _access: ServerAccess
    _clients: list[ServerClient] = field(factory=list, init=False)
    _sessions: dict[str, ServerClient] = field(factory=dict, init=False)
    _loads: dict[int, int] = field(factory=dict, init=False)
    """The sessions of each client, by its place."""

    @property
    def capabilities(self) -> Capabilities:
        """Those of the original engine."""
        return self._access.capabilities

    async def start(self) -> None:
        """Open a connection to each server."""
        from astuner_vllm.client import ServerClient

        for server in self._access.servers:
            client = ServerClient.at(server)
            await client.open()
            self._loads[len(self._clients)] = 0
            self._clients.append(client)

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the tokens of a request as they come. Closing the iterator cancels the request."""
        client = self._sessions.get(request.session)
        if client is None:
            if not self._clients:
                raise ServerLost("the engine is not running")
            place = min(self._loads, key=lambda one: (self._loads[one], one))
            self._loads[place] += 1
            client = self._sessions[request.session] = self._clients[place]
        async for chunk in client.generate(request):
            yield chunk

    async def release(self, session: str) -> None:
        """Forget a session's server."""
        client = self._sessions.pop(session, None)
        if client is not None:
            self._loads[self._clients.index(client)] -= 1

    async def update_weights(self, ref: Any, version: int) -> None:
        """Refuse: the original engine exchanges weights."""
        raise RuntimeError("weights are exchanged by the process that has started the servers")

    async def pause(self) -> None:
        """Do nothing: the original engine pauses the servers."""

    async def resume(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Close the connections; requests under way end with an error."""
        clients, self._clients = self._clients, []
        self._sessions.clear()
        for client in clients:
            await client.close()
