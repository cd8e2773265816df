"""Access to our servers: only for clients with the key. Runs in vLLM's server."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

KEY = "VLLM_API_KEY"
"""The environment variable of vLLM's own key."""
OPEN_PATHS = ("/health", "/ping", "/version")
"""Reports only that the server is alive."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class RequireKey:
    """ASGI middleware that requires the key for every path.

    vLLM's own check covers paths below `/v1` and `/inference`, and neither `/update_weights` nor `/collective_rpc`,
    which any user of the machine could call otherwise.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        """Wrap an application; the key comes from the environment."""
        self._app = app
        self._expected = f"Bearer {os.environ[KEY]}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request without the key (401; a WebSocket: 403), and pass on all others."""
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS or self._has_key(scope):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            # Before it is accepted: the server answers 403.
            await send({"type": "websocket.close", "code": 1008})
            return
        body = json.dumps({"error": {"message": "This server wants the key of the run that started it.", "code": 401}}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _has_key(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return secrets.compare_digest(given, self._expected)
