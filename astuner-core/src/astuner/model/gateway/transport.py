"""An HTTP client that bypasses the socket when it runs in the gateway's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.model.http_server.hosts import App


def make_client(app: App, loop: asyncio.AbstractEventLoop, http: Any) -> Any:
    """Make the one client of a library that all episodes share; only `shut_down()` closes it.

    A request made in another event loop goes through the socket, on connections of that loop.
    """

    class Parts(http.AsyncByteStream):  # type: ignore[misc] # the library is known only at run time
        """A response body, part by part as the application sends it."""

        def __init__(self, exchange: _Exchange, timeout: float | None, request: Any) -> None:
            self._exchange, self._timeout, self._request = exchange, timeout, request

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                try:
                    async with asyncio.timeout(self._timeout):
                        part = await self._exchange.parts.get()
                except TimeoutError:
                    raise http.ReadTimeout("no part of the answer in time", request=self._request) from None
                if part is None:
                    return
                yield part

        async def aclose(self) -> None:
            await self._exchange.end()

    class InProcessTransport(http.AsyncBaseTransport):  # type: ignore[misc] # as above
        """Calls the application directly."""

        def __init__(self) -> None:
            self._sockets: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None]]] = {}

        async def handle_async_request(self, request: Any) -> Any:
            here = asyncio.get_running_loop()
            if here is not loop:
                if here not in self._sockets:
                    await self._open_sockets(here)
                return await self._sockets[here][0].handle_async_request(request)
            timeout = request.extensions.get("timeout", {}).get("read")
            exchange = _Exchange(await request.aread())
            exchange.task = asyncio.create_task(exchange.run(app, _scope(request)))
            try:
                async with asyncio.timeout(timeout):
                    status, headers = await exchange.started
            except TimeoutError:
                await exchange.end()
                raise http.ReadTimeout("no answer in time", request=request) from None
            except BaseException:
                await exchange.end()
                raise
            if exchange.is_whole:
                # Without a stream, an answer in one piece takes less time.
                return http.Response(status, headers=headers, content=exchange.content())
            return http.Response(status, headers=headers, stream=Parts(exchange, timeout, request))

        async def _open_sockets(self, here: asyncio.AbstractEventLoop) -> None:
            """Open connections of a loop, which are closed with it: `asyncio.run` closes a loop's asynchronous generators."""
            transport = http.AsyncHTTPTransport()

            async def hold() -> AsyncGenerator[None]:
                try:
                    yield
                finally:
                    del self._sockets[here]
                    await transport.aclose()

            held = hold()
            self._sockets[here] = transport, held
            await anext(held)

    class SharedClient(http.AsyncClient):  # type: ignore[misc] # as above
        """Stays open when one of its users closes it."""

        def build_request(
            self, method: str, url: Any, *, timeout: Any = http.USE_CLIENT_DEFAULT, extensions: Any = None, **parts: Any
        ) -> Any:
            # It has no address, headers, cookies or parameters that a request would be merged with.
            limit = self.timeout if timeout is http.USE_CLIENT_DEFAULT else http.Timeout(timeout)
            return http.Request(method, url, extensions={"timeout": limit.as_dict(), **(extensions or {})}, **parts)

        async def aclose(self) -> None:
            return None

        async def shut_down(self) -> None:
            await super().aclose()

    # An SDK with "no retries" and "no proxies" must not find them in the environment.
    return SharedClient(transport=InProcessTransport(), trust_env=False, timeout=None)


class _Exchange:
    """One request in flight."""

    def __init__(self, body: bytes) -> None:
        self.started: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        """The status and the headers: of a stream, once it begins, and of any other answer, once it is there."""
        self.parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self.is_whole = False
        self._body = body
        self._given = False
        self._head: tuple[int, list[tuple[bytes, bytes]]] = (500, [])

    def content(self) -> bytes:
        """Return the body of a finished answer."""
        parts = [self.parts.get_nowait() for _ in range(self.parts.qsize())]
        return b"".join(part for part in parts if part is not None)

    async def run(self, app: App, scope: MutableMapping[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
            if not self.started.done():
                self.started.set_result(self._head)
        except Exception as error:  # noqa: BLE001 - handed to the client, which waits for it
            if not self.started.done():
                self.started.set_exception(error)
        finally:
            self.parts.put_nowait(None)

    async def end(self) -> None:
        """Cancel the request if it still runs, and wait until it is over."""
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._given:
            # No other message will ever come.
            await asyncio.Event().wait()
        self._given = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._head = message["status"], message["headers"]
            # Only what is sent in one piece has its length in its headers.
            self.is_whole = any(name == b"content-length" for name, _ in message["headers"])
            if not self.is_whole and not self.started.done():
                self.started.set_result(self._head)
        elif message.get("body"):
            self.parts.put_nowait(message["body"])


def _scope(request: Any) -> MutableMapping[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": None,
        "root_path": "",
    }
