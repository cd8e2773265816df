"""The application: access first, then files of the pages, answers and events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from astuner_logview.server.access import HEADERS, Access
from astuner_logview.server.json_answers import respond_to_error
from astuner_logview.server.refusals import Refusal
from astuner_logview.server.static_answers import answer_static

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Answer = Callable[[Request], Awaitable[Response]]


def build_app(access: Access, answer_api: Answer) -> App:
    """Return the application; `answer_api` answers what is below `/api/`."""

    async def answer(request: Request) -> Response:
        try:
            refused = access.check(request)
            if refused is not None:
                return refused
            if request.scope["path"].startswith("/api/"):
                return await answer_api(request)
            return answer_static(request)
        except Exception as error:  # noqa: BLE001 - the boundary: a page gets JSON, and the log the traceback
            return respond_to_error(error)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        response = await answer(Request(access.public.strip_path(scope), receive))
        for name, value in HEADERS.items():
            response.headers[name] = value
        if response.status_code == 405:
            response.headers["Allow"] = "GET, HEAD"
        await response(scope, receive, send)

    return app


__all__ = ["App", "Refusal", "build_app"]
