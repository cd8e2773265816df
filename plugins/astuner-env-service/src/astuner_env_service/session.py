"""One session of an OpenEnv server: a WebSocket on which messages and answers alternate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import AstunerError, PluginError
from astuner.shared.clients import pause_before_retry, spread
from astuner.shared.install_hints import install_command
from astuner_env_service.client.addresses import is_local

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

NO_PLACE = "CAPACITY_REACHED"
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0
CLOSE_S = 3.0
LONGEST_DETAIL = 500
"""Characters of a server's message that are shown."""
LARGEST = 64 << 20
"""Bytes of one message."""


class OpenEnvFailed(AstunerError):
    """The server gave no observation; the message says which server, and why."""

    def __init__(self, said: str, *, code: str = "", where: str = "") -> None:
        """`code` is the server's, if it gave one."""
        self.said, self.code = said, code
        super().__init__(f"{where}{said}")


class Session:
    """Belongs to one event loop. The server ends it with the connection."""

    def __init__(self, url: str, *, token: str | None, timeout_s: float, heartbeat_s: float) -> None:
        self._url, self._token, self._timeout_s, self._heartbeat_s = url, token, timeout_s, heartbeat_s
        self._turn = asyncio.Lock()
        self._socket: ClientConnection | None = None
        self._heart: asyncio.Task[None] | None = None
        self._last_s = 0.0

    async def open(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Connect and reset, repeatedly while the server is down or full, for at most the time limit."""
        end_s = time.monotonic() + self._timeout_s
        for attempt in count():
            pause_s = pause_before_retry(attempt, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
            try:
                self._socket = await self._connect()
                # A full server still accepts the connection, and reports it instead of the first answer.
                found = await self._say("reset", data)
                break
            except (OpenEnvFailed, OSError) as error:
                await self._hang_up()
                refused = isinstance(error, OpenEnvFailed) and error.code != NO_PLACE
                if refused or time.monotonic() + pause_s > end_s:
                    raise (
                        error if isinstance(error, OpenEnvFailed) else self._make_failure(f"could not be reached: {error!r}")
                    ) from error
            await asyncio.sleep(spread(pause_s))
        self._heart = asyncio.create_task(self._beat(), name=f"heartbeat of {self._url}")
        return found

    async def ask(self, kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a message of a kind, and return the data of its answer. Nothing is sent twice: a lost session is lost."""
        async with self._turn:
            return await self._say(kind, data)

    async def close(self) -> None:
        """Say good-bye and hang up; at any time."""
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)
        await self._hang_up()

    async def _connect(self) -> ClientConnection:
        try:
            from websockets.asyncio.client import connect
            from websockets.exceptions import WebSocketException
        except ImportError as error:
            raise PluginError(f"environment 'openenv' needs websockets: {install_command('astuner-env-service')}") from error
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            return await connect(
                self._url,
                additional_headers=headers,
                max_size=LARGEST,
                open_timeout=self._timeout_s,
                close_timeout=CLOSE_S,
                # True uses the proxy in the environment variables, if any.
                proxy=None if is_local(self._url) else True,
            )
        except WebSocketException as error:
            raise self._make_failure(f"is not an OpenEnv server: {error}") from error

    async def _say(self, kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        from websockets.exceptions import ConnectionClosed

        if self._socket is None:
            raise self._make_failure("the session is not open")
        # Some servers refuse an unknown key, even if empty.
        message = {"type": kind, **({"data": dict(data)} if kind in ("reset", "step") else {})}
        # Without its answer the session is over: a late one must not be taken for the next message's.
        try:
            async with asyncio.timeout(self._timeout_s):
                # If the server has hung up, its last message can still be read.
                with contextlib.suppress(ConnectionClosed):
                    await self._socket.send(json.dumps(message))
                text = await self._socket.recv()
        except ConnectionClosed as error:
            raise self._make_failure(f"{kind}: the session was lost: {error}") from error
        except TimeoutError as error:
            await self._hang_up()
            raise self._make_failure(f"{kind}: no answer within {self._timeout_s:g} s") from error
        except BaseException:
            await self._hang_up()
            raise
        finally:
            self._last_s = time.monotonic()
        return self._read(kind, text)

    def _read(self, kind: str, text: str | bytes) -> Mapping[str, Any]:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        data = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(answer, Mapping) or not isinstance(data, Mapping):
            raise self._make_failure(f"{kind}: an odd answer: {text[:200]!r}")
        if answer.get("type") == "error":
            raise self._make_failure(f"{kind}: {_describe_failure(data)}", code=str(data.get("code") or ""))
        return data

    async def _hang_up(self) -> None:
        from websockets.exceptions import ConnectionClosed

        socket, self._socket = self._socket, None
        if socket is None:
            return
        # The server may have hung up first.
        with contextlib.suppress(ConnectionClosed):
            await socket.send(json.dumps({"type": "close"}))
        await socket.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._last_s + self._heartbeat_s - time.monotonic()))
            if time.monotonic() - self._last_s < self._heartbeat_s:
                continue
            try:
                await self.ask("state", {})
            except OpenEnvFailed:
                # The next step reports the lost session, and ends the episode.
                return

    def _make_failure(self, said: str, code: str = "") -> OpenEnvFailed:
        return OpenEnvFailed(said, code=code, where=f"OpenEnv server {self._url}: ")


def _describe_failure(data: Mapping[str, Any]) -> str:
    """Return a server's account of a failure; for an invalid action, which field is wrong."""
    errors = [one for one in data.get("errors") or () if isinstance(one, Mapping)]
    fields = [f"{'.'.join(map(str, one.get('loc') or ()))}: {one.get('msg')}" for one in errors]
    return "; ".join([str(data.get("message", dict(data))), *fields])[:LONGEST_DETAIL]
