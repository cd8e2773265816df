"""The HTTP application: a route for each API, as plain ASGI."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from astuner.model.gateway.api_keys import Caller, read_key, read_target_tag
from astuner.model.gateway.dialects import DIALECTS, Dialect, Writer
from astuner.model.gateway.dialects.anthropic_messages import ANTHROPIC_MESSAGES, error_body, read_anthropic_key
from astuner.model.gateway.dialects.anthropic_request import messages_request
from astuner.model.gateway.dialects.dialect import Normalise
from astuner.model.gateway.dialects.fields import parse_body
from astuner.model.gateway.dialects.gemini_content import (
    MODELS,
    describe_google_model,
    format_google_error,
    read_google_key,
    read_query_key,
    unify_version,
)
from astuner.model.gateway.dialects.gemini_request import gemini_request
from astuner.model.gateway.recording.body_limit import BodyLimit
from astuner.model.gateway.recording.choice_events import Answer, Delta, Done
from astuner.model.gateway.recording.messages import normalise
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.http_server import LARGE_BODY
from astuner.model.rendering.errors import ApiError, bad_request
from astuner.model.rendering.text_encoders import LongText

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from astuner.model.gateway.recording.recorder import EpisodeRecorder
    from astuner.model.gateway.recording.turn import Turn

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)

CANCELS = "astuner.cancels"
"""The extension of a server, in the scope, that cancels the application when the client leaves, and sends it no message."""

FindRecorder = Callable[[str], "EpisodeRecorder | None"]
"""Returns the open episode with a secret."""


def make_app(find_recorder: FindRecorder, *, model_name: str, max_body_bytes: int | None) -> App:
    """Make the application."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    the_model = {"id": model_name, "object": "model", "created": 0, "owned_by": "astuner"}

    async def report_health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def list_models(request: Request) -> Response:
        authorise(find_recorder, read_anthropic_key(request.scope["headers"]))
        return JSONResponse({"object": "list", "data": [the_model]})

    async def show_model(request: Request) -> Response:
        authorise(find_recorder, read_anthropic_key(request.scope["headers"]))
        return JSONResponse({**the_model, "id": find_model(request)})

    async def list_google_models(request: Request) -> Response:
        authorise(find_recorder, read_any_google_key(request))
        return JSONResponse({"models": [describe_google_model(model_name)]})

    async def show_google_model(request: Request) -> Response:
        authorise(find_recorder, read_any_google_key(request))
        return JSONResponse(describe_google_model(find_model(request)))

    def find_model(request: Request) -> str:
        name: str = request.path_params["name"]
        if name != model_name and read_target_tag(name, model_name) is None:
            raise ApiError(404, f"Model '{name}' is not served here; '{model_name}' is.", code="model_not_found", param="model")
        return name

    def read_any_google_key(request: Request) -> str:
        return read_google_key(request.scope["headers"]) or read_query_key(request.scope["query_string"])

    async def count_tokens(request: Request) -> Response:
        key = read_anthropic_key(request.scope["headers"])
        return JSONResponse({"input_tokens": await count(request, key, partial(messages_request, counting=True))})

    async def count_google_tokens(request: Request) -> Response:
        key = read_any_google_key(request)
        return JSONResponse({"totalTokens": await count(request, key, partial(gemini_request, counting=True))})

    async def count(request: Request, key: str, read: Callable[[Mapping[str, Any]], ChatRequest]) -> int:
        recorder, caller = authorise(find_recorder, key)
        body = await read_body(request.scope, request.receive, recorder.find_body_limit(max_body_bytes))
        await recorder.order.admit()
        try:
            if len(body) > LARGE_BODY:
                counted = await recorder.order.run(lambda: read(parse_body(body)))
            else:
                counted = read(parse_body(body))
            return await recorder.count(counted, caller)
        finally:
            recorder.order.release()

    async def handle_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return JSONResponse(
            _error_body(request, error), error.status, {name.decode(): value.decode() for name, value in error.headers}
        )

    async def handle_unknown(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status == 405 and request.url.path.startswith(f"{MODELS}/"):
            # A method of a model is a part of its path here: MODEL:embedContent.
            status = 404
        served = ", ".join(f"POST {dialect.path}" for dialect in DIALECTS)
        text = f"{request.method} {request.url.path} is not served; {served} and GET /v1/models are."
        headers = error.headers if isinstance(error, HTTPException) else None
        return JSONResponse(_error_body(request, ApiError(status, text)), status, headers)

    turnstile = asyncio.Lock()
    generations = {
        dialect.path: Generation(
            dialect=dialect,
            find_recorder=find_recorder,
            model_name=model_name,
            max_body_bytes=max_body_bytes,
            turnstile=turnstile,
        )
        for dialect in DIALECTS
    }
    others = Starlette(
        routes=[
            *(Route(path, generation, methods=["POST"]) for path, generation in generations.items()),
            Route(f"{ANTHROPIC_MESSAGES.path}/count_tokens", count_tokens, methods=["POST"]),
            Route(f"{MODELS}/{{model}}:countTokens", count_google_tokens, methods=["POST"]),
            Route(MODELS, list_google_models, methods=["GET"]),
            Route(f"{MODELS}/{{name}}", show_google_model, methods=["GET"]),
            Route("/v1/models", list_models, methods=["GET"]),
            Route("/v1/models/{name:path}", show_model, methods=["GET"]),
            Route("/healthz", report_health, methods=["GET"]),
        ],
        exception_handlers={HTTPException: handle_unknown, ApiError: handle_refusal},
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # The framework's layers around a route would take most of a short request's time.
        posted = scope["type"] == "http" and scope["method"] == "POST"
        if scope["type"] == "http" and (path := unify_version(scope["method"], scope["path"], scope["headers"])) != scope["path"]:
            scope = {**scope, "path": path}
        try:
            await (generations.get(scope["path"], others) if posted else others)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - it is raised again, without a message that may quote a body
            _log(error)
            # The server logs every exception that reaches it, with its message.
            raise RuntimeError(f"the gateway failed: {type(error).__name__}") from None

    return app


@frozen(kw_only=True, eq=False)
class Generation:
    """Answers the requests of one API. A separate ASGI application, so that nothing is buffered or parsed twice."""

    dialect: Dialect
    find_recorder: FindRecorder
    model_name: str
    max_body_bytes: int | None
    turnstile: asyncio.Lock
    """Shared by all APIs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; every failure is answered in the API's own error shape."""
        try:
            key = self.dialect.read_key(scope["headers"]) or self.dialect.read_query_key(scope["query_string"])
            recorder, caller = authorise(self.find_recorder, key)
            body = await self._read_body(scope, receive, recorder, caller)
            await recorder.order.admit()
            try:
                begin = self._begin_large if len(body) > LARGE_BODY else self._begin
                request, turn = await begin(body, recorder, caller, scope.get("path_params", {}).get("model"))
            finally:
                recorder.order.release()
        except ApiError as error:
            await self._refuse(send, error)
        except RecursionError:
            await self._refuse(send, bad_request("The body is nested too deeply to be read."))
        except Exception as error:  # noqa: BLE001 - the client gets an answer to any error; it is logged below
            _log(error)
            await self._refuse(send, ApiError(500, f"The gateway failed: {error!r}"))
        else:
            # Without messages there is nothing to wait for.
            watch = None if CANCELS in scope.get("extensions", ()) else asyncio.create_task(_watch(receive, turn))
            await self._serve(turn, request, watch, send)

    async def _read_body(self, scope: Scope, receive: Receive, recorder: EpisodeRecorder, caller: Caller) -> bytes | bytearray:
        try:
            return await read_body(scope, receive, recorder.find_body_limit(self.max_body_bytes))
        except ApiError as error:
            recorder.ledger.note_error(caller, error)
            raise

    async def _begin(
        self, body: bytes | bytearray, recorder: EpisodeRecorder, caller: Caller, model: str | None
    ) -> tuple[ChatRequest, Turn]:
        await self.turnstile.acquire()
        try:
            request = self._read(parse_body(body), recorder.read_messages, model)
            return request, recorder.begin(request, caller)
        except LongText:
            # Its thread is waited for below, outside of the turnstile.
            pass
        finally:
            # With many concurrent requests, each reaches the engine before the next one is read.
            asyncio.get_running_loop().call_soon(self.turnstile.release)
        return request, await recorder.begin_long(request, caller)

    async def _begin_large(
        self, body: bytes | bytearray, recorder: EpisodeRecorder, caller: Caller, model: str | None
    ) -> tuple[ChatRequest, Turn]:
        request = await recorder.order.run(lambda: self._read(parse_body(body), normalise, model))
        return request, await recorder.begin_long(request, caller)

    def _read(self, parsed: Mapping[str, Any], read_messages: Normalise, model: str | None) -> ChatRequest:
        """Read a body; `model` is that of the path, if it has one."""
        tag = read_target_tag(parsed.get("model") if model is None else model, self.model_name)
        request = self.dialect.read(parsed, read_messages)
        return request if tag is None else evolve(request, target_tag=tag)

    async def _serve(self, turn: Turn, request: ChatRequest, watch: asyncio.Task[None] | None, send: Send) -> None:
        writer = self.dialect.make_writer(request, turn.id, self.model_name)
        try:
            if request.stream:
                await _stream(turn, request.choices, writer, send)
            else:
                await _send_reply(send, 200, writer.write_whole(await _collect_answers(turn, request.choices)))
        except ApiError as error:
            await self._refuse(send, error)
        except ConnectionAbortedError:
            log.debug("a client left before its answer")
        finally:
            if watch is not None:
                watch.cancel()
            await turn.cancel()

    async def _refuse(self, send: Send, error: ApiError) -> None:
        await _send_reply(send, error.status, json.dumps(self.dialect.format_error(error)).encode(), error.headers)


def _log(error: Exception) -> None:
    """Log where the gateway failed, without the message, since it may quote a body."""
    places = "".join(traceback.format_tb(error.__traceback__))
    log.error("the gateway failed on a request: %s\n%s", type(error).__name__, places)


def _error_body(request: Request, error: ApiError) -> Mapping[str, Any]:
    """Return a refusal in the shape of the API of the request's path."""
    path = request.url.path
    if path.startswith(MODELS):
        return format_google_error(error)
    return error_body(error) if path.startswith(ANTHROPIC_MESSAGES.path) else error.body


def authorise(find_recorder: FindRecorder, key: str) -> tuple[EpisodeRecorder, Caller]:
    """Find the episode and the agent of a key; raises ApiError (401)."""
    caller = read_key(key)
    recorder = find_recorder(caller.secret) if caller is not None else None
    if recorder is None or caller is None:
        text = "This API key belongs to no open episode. Keys come from the tuner of a workflow and end with its episode."
        raise ApiError(401, text, code="invalid_api_key", retry=False)
    return recorder, caller


async def read_body(scope: Scope, receive: Receive, limit: BodyLimit) -> bytes | bytearray:
    """Read a body within a limit; raises ApiError."""
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    # Python refuses to parse numbers with thousands of digits.
    more = not (declared.isdigit() and (len(declared) > 18 or int(declared) > limit.max_bytes))
    if not more:
        raise limit.make_error()
    body: bytes | bytearray = b""
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(400, "The client left before its request was complete.")
        part, more = message.get("body", b""), message.get("more_body", False)
        if not body:
            body = bytearray(part) if more else part
        else:
            body += part
        if len(body) > limit.max_bytes:
            raise limit.make_error()
    return body


async def _watch(receive: Receive, turn: Turn) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    turn.events.put_nowait(None)


async def _wait_for_event(turn: Turn) -> Delta | Done:
    """Wait for the next event; raises ConnectionAbortedError if the client is gone, or a choice's failure."""
    happened = await turn.events.get()
    if happened is None:
        raise ConnectionAbortedError
    if isinstance(happened, Done) and isinstance(happened.result, Exception):
        raise happened.result
    return happened


async def _collect_answers(turn: Turn, choices: int) -> list[Answer]:
    answers: dict[int, Answer] = {}
    while len(answers) < choices:
        happened = await _wait_for_event(turn)
        if isinstance(happened, Done) and isinstance(happened.result, Answer):
            answers[happened.choice] = happened.result
    return [answers[number] for number in range(choices)]


async def _stream(turn: Turn, choices: int, writer: Writer, send: Send) -> None:
    # Nothing is sent before the first tokens, so that an engine's immediate failure becomes an HTTP status.
    happened = await _wait_for_event(turn)
    await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
    await _send_part(send, writer.write_opening())
    answers: dict[int, Answer] = {}
    try:
        while True:
            if isinstance(happened, Delta):
                await _send_part(send, writer.write_delta(happened))
            elif isinstance(happened.result, Answer):
                answers[happened.choice] = happened.result
                await _send_part(send, writer.write_done(happened.choice, happened.result))
                if len(answers) == choices:
                    break
            happened = await _wait_for_event(turn)
    except ApiError as error:
        # The status is already sent.
        await _send_part(send, writer.write_failure(error), more=False)
        return
    await _send_part(send, writer.write_closing([answers[number] for number in range(choices)]), more=False)


async def _send_part(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _send_reply(send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send(
        {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json"), length, *headers]}
    )
    await _send_part(send, body, more=False)


_STREAM_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
