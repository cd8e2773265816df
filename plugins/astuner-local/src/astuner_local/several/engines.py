"""One engine for several models, of which the target of a call chooses one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from attrs import evolve

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner_local.engine.plugin import LocalEngine
from astuner_local.several.opponents import read_version


class SeveralEngines:
    """Engines side by side in one process, each with its own cache and its own batch."""

    def __init__(self, engines: Mapping[str, LocalEngine], rest: LocalEngine) -> None:
        """Take an engine for each target tag, and the one for all others."""
        self._engines = {**engines, "": rest}
        self._served: dict[str, Any] = {}
        self._sessions: dict[str, set[str]] = {}

    @property
    def capabilities(self) -> Capabilities:
        """What all of them can do."""
        every = [engine.capabilities for engine in self._engines.values()]
        return evolve(every[-1], several_models=True, reproducible=all(one.reproducible for one in every))

    async def start(self) -> None:
        """Serve in the running event loop."""
        for engine in self._engines.values():
            await engine.start()

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request as they come. Closing the iterator cancels the request."""
        tag = request.target_tag if request.target_tag in self._engines else ""
        self._sessions.setdefault(request.session, set()).add(tag)
        return self._engines[tag].generate(request)

    async def release(self, session: str) -> None:
        """Free the KV cache of a session."""
        for tag in self._sessions.pop(session, ()):
            await self._engines[tag].release(session)

    async def update_weights(self, ref: Mapping[str, Any], version: int) -> None:
        """Serve new weights: a module or a directory for each tag that gets any."""
        for tag, weights in ref.items():
            if not isinstance(weights, str):
                await self._engines[tag].update_weights(weights, version)
            elif self._served.get(tag) != weights:
                # The files of a checkpoint stay as they are.
                await self._engines[tag].update_weights(weights, read_version(weights))
                self._served[tag] = weights

    async def pause(self) -> None:
        """Start no new request until `resume`."""
        for engine in self._engines.values():
            await engine.pause()

    async def resume(self) -> None:
        """Start requests again after `pause`."""
        for engine in self._engines.values():
            await engine.resume()

    async def close(self) -> None:
        """Stop; requests under way end with `abort`."""
        for engine in reversed(self._engines.values()):
            await engine.close()
