"""Which function answers an address below `/api/`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from attrs import define
from starlette.requests import Request
from starlette.responses import Response

from astuner.model.http_server import load_json
from astuner_logview.errors import BadRequest, Missing
from astuner_logview.server.json_answers import Body, make_body
from astuner_logview.server.refusals import Refusal
from astuner_logview.server.workers import Workers

if TYPE_CHECKING:
    from astuner_logview.library import Library

MOST_POSTED = 200_000
"""Bytes of a request's body."""
MOST_PARAMETERS = 1000
Special = Callable[[Request], Awaitable[Response]]


@define(eq=False, kw_only=True)
class Api:
    """Answers requests for JSON: page functions run in a worker's thread."""

    library: Library
    workers: Workers
    specials: Mapping[str, Special]
    """What answers with something else than JSON, by address."""

    async def answer(self, request: Request) -> Response:
        """Return the response; raises `Unanswerable`."""
        pattern, run = match_address(request)
        if (special := self.specials.get(pattern)) is not None:
            return await special(request)
        if pattern == "/api/config/explain":
            return await self._explain(request)
        values = read_query(request)
        accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")

        def answer() -> Body:
            return make_body(answer_page(self.library, pattern, run, values), accepts_gzip=accepts_gzip)

        return (await self.workers.call(answer)).respond()

    async def _explain(self, request: Request) -> Response:
        posted = await read_posted(request)
        accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")

        def explain() -> Body:
            from astuner_logview.pages import configuration

            return make_body(configuration.explain(self.library, posted), accepts_gzip=accepts_gzip)

        return (await self.workers.call(explain)).respond()


def answer_page(library: Library, pattern: str, run: str | None, values: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the answer of a page function; raises `Unanswerable`."""
    from astuner_logview.pages.addresses import PAGES
    from astuner_logview.parameters import Parameters

    page = PAGES.get(pattern)
    if page is None:
        raise Missing("there is no such address", "API.md of astuner-logview lists them")
    return page(library, Parameters(run=run or "", values=values))


def match_address(request: Request) -> tuple[str, str | None]:
    """Return an address as the table of pages has it, and the run in it; `%2F` in a run is part of its id."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return match_path(raw.decode("latin-1").partition("?")[0])


def match_path(path: str) -> tuple[str, str | None]:
    """Return an address as the table of pages has it, and the run in it."""
    parts = path.split("/")
    if parts[:3] == ["", "api", "runs"] and len(parts) > 3:
        return "/".join([*parts[:3], "{run}", *parts[4:]]), unquote(parts[3])
    return path, None


def read_query(request: Request) -> Mapping[str, Sequence[str]]:
    """Return the values of the query by name; raises `Unanswerable` for one that is none."""
    return parse_query(request.scope["query_string"].decode("latin-1"))


def parse_query(text: str) -> Mapping[str, Sequence[str]]:
    """Return the values of a query by name; raises `Unanswerable`."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError as error:
        raise BadRequest(f"the query of the address cannot be read: {error}") from error


async def read_posted(request: Request) -> Mapping[str, Any]:
    """Return the JSON object of a request's body; raises `Unanswerable`."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MOST_POSTED:
            raise Refusal(f"the request has more than {MOST_POSTED} bytes", "shorten the YAML", status=413)
    try:
        body = load_json(data)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise BadRequest(f"the body is not valid JSON: {reason}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body
