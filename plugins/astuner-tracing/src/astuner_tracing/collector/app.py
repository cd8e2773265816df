"""The collector's HTTP interface: `POST /v1/traces` of OTLP, `POST /v1/feedback`, `GET /health`."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from attrs import define

from astuner_tracing.collector.bodies import (
    JSON,
    PROTOBUF,
    BadRequest,
    accept,
    build_refusal,
    build_reply,
    parse_document,
    unpack,
)
from astuner_tracing.collector.feedback import build_feedback_document
from astuner_tracing.collector.store import TraceFile

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


@define(eq=False)
class CollectorCounts:
    """Counts of what was received."""

    spans: int = 0
    rejected: int = 0
    feedback: int = 0


def make_app(
    file: TraceFile, collected: CollectorCounts, *, token: str | None, max_body_bytes: int, at_once: int, body_timeout_s: float
) -> Starlette:
    """Return the application. With a token, requests without it are refused, and take no place from others."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    places = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def admit(request: Request) -> AsyncIterator[bytes]:
        _check_token(request, token)
        if places.locked():
            raise BadRequest(503, f"{at_once} requests are being answered; try again")
        async with places:
            yield await _read_body(request, max_body_bytes, body_timeout_s)

    async def traces(request: Request) -> Response:
        kind = _content_type(request)
        try:
            async with admit(request) as body:
                kept = await run_in_threadpool(
                    lambda: accept(parse_document(unpack(body, _get_encoding(request), max_body_bytes), kind))
                )
                if kept.spans:
                    await run_in_threadpool(file.append, kept.document)
        except BadRequest as error:
            kind = kind if kind == PROTOBUF else JSON
            return Response(build_refusal(kind, str(error)), error.status, _headers(error), media_type=kind)
        except OSError as error:
            # OTLP's clients retry after 503.
            message = f"cannot be written: {error.strerror or error}"
            return Response(build_refusal(kind, message), 503, {"Retry-After": "5"}, media_type=kind)
        collected.spans += kept.spans
        collected.rejected += kept.rejected
        return Response(build_reply(kind, kept.rejected, kept.why), media_type=kind)

    async def feedback(request: Request) -> Response:
        try:
            _check_token(request, token)
            if _content_type(request) != JSON:
                # A web page may send other types to loopback without permission, in its visitor's name.
                raise BadRequest(415, f"feedback is sent as {JSON}")
            async with admit(request) as body:
                await run_in_threadpool(
                    lambda: file.append(build_feedback_document(unpack(body, _get_encoding(request), max_body_bytes)))
                )
        except BadRequest as error:
            return JSONResponse({"message": str(error)}, error.status, _headers(error))
        except OSError as error:
            return JSONResponse({"message": f"cannot be written: {error.strerror or error}"}, 503, {"Retry-After": "5"})
        collected.feedback += 1
        return JSONResponse({"stored": True})

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/v1/traces", traces, methods=["POST"]),
            Route("/v1/feedback", feedback, methods=["POST"]),
            Route("/health", health, methods=["GET"]),
        ]
    )


def _headers(error: BadRequest) -> dict[str, str]:
    """Return a reply that makes a client retry if that helps, and closes the connection of one that is still sending."""
    return {503: {"Retry-After": "5"}, 408: {"Connection": "close"}}.get(error.status, {})


def _check_token(request: Request, token: str | None) -> None:
    if token is None:
        return
    given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise BadRequest(401, "the header `Authorization: Bearer TOKEN` is missing, or its token is another one")


async def _read_body(request: Request, limit: int, timeout_s: float) -> bytes:
    """Read the body, and stop as soon as it is too large, or takes too long."""
    from starlette.requests import ClientDisconnect

    made = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for part in request.stream():
                made += part
                if len(made) > limit:
                    raise BadRequest(413, f"the body is larger than {limit} bytes")
    except TimeoutError as error:
        raise BadRequest(408, f"the body was not here after {timeout_s:g} s") from error
    except ClientDisconnect as error:
        raise BadRequest(400, "the client left before its request was complete") from error
    return bytes(made)


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _get_encoding(request: Request) -> str:
    return request.headers.get("content-encoding", "").strip().lower()
