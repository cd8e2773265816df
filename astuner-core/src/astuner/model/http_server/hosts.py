"""The names by which a server on loopback may be called.

A web page that makes its own name point to 127.0.0.1 reaches such a server through its visitor's browser, as its own origin.
The browser sends that name in `Host`.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def guard_hosts(app: App, host: str, *, public_url: str | None = None) -> App:
    """Return an application that answers 403 to foreign names in `Host`, if it listens on loopback.

    `host` is the address it listens on. Besides loopback's own names, `public_url` may name the host that clients call.
    """
    if not is_loopback(host):
        return app
    public = None if public_url is None else urlsplit(public_url).hostname

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for name, value in scope["headers"]:
                if name == b"host" and not is_loopback(called := read_host(value)) and called != public:
                    await _refuse(send, called)
                    return
        await app(scope, receive, send)

    return guard


def read_host(value: bytes) -> str:
    """Return the host of a `Host` header, without its port."""
    text = value.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


async def _refuse(send: Send, called: str) -> None:
    text = f"This server is called by another name: {called[:200]!r} is not the address of this machine that it listens on."
    body = json.dumps(describe_refusal(text, "foreign_host")).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def describe_refusal(text: str, code: str) -> Mapping[str, Any]:
    """Return the body of a refusal that no application has seen, in a shape that the clients of all of them read."""
    error = {"message": text, "type": "invalid_request_error", "param": None, "code": code}
    return {"error": error, "message": text, "detail": text}
