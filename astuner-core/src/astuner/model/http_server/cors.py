"""Permission for web pages of other origins to call a server: browsers ask for it before they let a page do so."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from typing import Any

from astuner.model.http_server.hosts import App, Receive, Scope, Send


def allow_origins(app: App, origins: Collection[str]) -> App:
    """Return an application that pages of these origins may call, `*` those of any."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        origin = headers.get(b"origin", b"")
        if not origin or not {"*", origin.decode("latin-1")} & {*origins}:
            await app(scope, receive, send)
            return
        shown = [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            asked = headers.get(b"access-control-request-headers", b"authorization, content-type")
            shown += [(b"access-control-allow-methods", b"GET, POST"), (b"access-control-allow-headers", asked)]
            shown += [(b"access-control-allow-private-network", b"true"), (b"access-control-max-age", b"600")]
            await send({"type": "http.response.start", "status": 204, "headers": shown})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_shown(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *shown]}
            await send(message)

        await app(scope, receive, send_shown)

    return answer
