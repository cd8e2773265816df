"""The names by which a server on loopback may be called, and the web pages of other origins that may call it.

A web page that makes its own name point to 127.0.0.1 reaches such a server through its visitor's browser, as its own origin.
The browser sends that name in `Host`.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HOST = re.compile(rb"(\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]|[^][\s:@/?#,]+)(?::\d*)?")


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def guard_hosts(app: App, host: str, *, public_url: str | None = None) -> App:
    """Return an application that answers 400 to requests without one `Host`, and 403 to foreign names if it is on loopback.

    `host` is the address it listens on. Besides loopback's own names, `public_url` may name the host that clients call.
    """
    public = None if public_url is None else urlsplit(public_url).hostname
    is_private = is_loopback(host)

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            if len(hosts) != 1:
                await _refuse(send, 400, f"A request has one `Host` header, not {len(hosts)}.", "no_host")
                return
            if is_private and not is_loopback(called := read_host(hosts[0])) and called != public:
                shown = hosts[0][:200].decode("latin-1")
                text = f"This server is called by another name: {shown!r} is not the address of this machine that it listens on."
                await _refuse(send, 403, text, "foreign_host")
                return
        await app(scope, receive, send)

    return guard


@lru_cache(maxsize=64)
def read_host(value: bytes) -> str:
    """Return the host of a `Host` header, without its port; an empty text if it has another form."""
    match = HOST.fullmatch(value.strip())
    return match[1].decode("latin-1").strip("[]").rstrip(".").lower() if match else ""


async def _refuse(send: Send, status: int, text: str, code: str) -> None:
    body = json.dumps(describe_refusal(text, code)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


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


def describe_refusal(text: str, code: str) -> Mapping[str, Any]:
    """Return the body of a refusal that no application has seen, in a shape that the clients of all of them read."""
    error = {"message": text, "type": "invalid_request_error", "param": None, "code": code}
    return {"error": error, "message": text, "detail": text}
