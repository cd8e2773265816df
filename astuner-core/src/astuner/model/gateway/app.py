"""The HTTP application: what answers the routes of the wire APIs, as plain ASGI."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from astuner.model.gateway.admission import FindRecorder, authorise, read_body
from astuner.model.gateway.api_keys import Caller, read_target_tag
from astuner.model.gateway.recording.messages import normalise
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.reply_sending import collect_answers, send_refusal, send_reply, send_stream
from astuner.model.gateway.route_table import EMBEDDINGS, NotServed, RouteTable
from astuner.model.gateway.wire_apis import CountRoute, GenerationRoute, KeptRoute, Normalise, Route, WireApi, encode_json
from astuner.model.gateway.wire_apis.fields import parse_body
from astuner.model.http_server import LARGE_BODY, LEAVING
from astuner.model.http_server.hosts import App, Receive, Scope, Send
from astuner.model.rendering.encoding import LongText
from astuner.model.rendering.errors import ApiError, bad_request

if TYPE_CHECKING:
    from astuner.model.gateway.embeddings import EmbeddingsServer
    from astuner.model.gateway.recording.recorder import EpisodeRecorder
    from astuner.model.gateway.recording.turn import Turn

log = logging.getLogger(__name__)

HEALTH = ("/health", "/healthz")


@frozen(kw_only=True, eq=False)
class Service:
    """What the answers to all routes share."""

    find_recorder: FindRecorder
    model_name: str
    max_body_bytes: int | None
    reading: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    """Held while a request is read, so that requests are read one after the other."""


def make_app(
    find_recorder: FindRecorder,
    *,
    model_name: str,
    max_body_bytes: int | None,
    wire_apis: Sequence[WireApi] | None = None,
    disabled_plugins: Collection[str] = (),
    embedder: EmbeddingsServer | None = None,
) -> App:
    """Make the application; without `wire_apis` it serves core's own and, once their paths are called, the installed ones."""
    service = Service(find_recorder=find_recorder, model_name=model_name, max_body_bytes=max_body_bytes)
    table = RouteTable(
        lambda api, route: _make_answer(api, route, service), model_name=model_name, apis=wire_apis, disabled=disabled_plugins
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] in HEALTH:
                await _report_health(scope, send)
            elif scope["path"] == EMBEDDINGS:
                from astuner.model.gateway.embeddings import pass_embeddings_on

                await pass_embeddings_on(embedder, find_recorder, max_body_bytes, scope, receive, send)
            else:
                answer, parameters = table.find(scope)
                await answer({**scope, "path_params": parameters}, receive, send)
        except NotServed as error:
            await send_refusal(send, table.find_similar(scope), error)
        except Exception as error:  # noqa: BLE001 - it is raised again, without a message that may quote a body
            _log(error)
            # The server logs every exception that reaches it, with its message.
            raise RuntimeError(f"the gateway failed: {type(error).__name__}") from None

    return app


def _make_answer(api: WireApi, route: Route, service: Service) -> App:
    """Return what answers the requests of a route."""
    if isinstance(route, GenerationRoute):
        return Generation(api=api, route=route, service=service)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            recorder, caller = authorise(service.find_recorder, api.find_key(scope))
            if isinstance(route, CountRoute):
                body = await read_body(scope, receive, recorder.find_body_limit(service.max_body_bytes))
                answered = route.write(await _count(body, route, recorder, caller))
            elif isinstance(route, KeptRoute):
                kept, _, more = scope["path_params"]["model"].partition("/")
                if more or b"stream=true" in scope["query_string"].lower():
                    raise NotServed(f"A response that was kept is served whole: GET {scope['path'].removesuffix('/' + more)}.")
                await send_reply(send, 200, recorder.find_kept(kept))
                return
            else:
                answered = route.write(_find_model(scope["path_params"].get("model"), service.model_name))
            await send_reply(send, 200, encode_json(answered))
        except ApiError as error:
            await send_refusal(send, api, error)

    return answer


@frozen(kw_only=True, eq=False)
class Generation:
    """Answers the requests of one API. A separate ASGI application, so that nothing is buffered or parsed twice."""

    api: WireApi
    route: GenerationRoute
    service: Service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; every failure is answered in the API's own error shape."""
        try:
            recorder, caller = authorise(self.service.find_recorder, self.api.find_key(scope))
            body = await self._read_body(scope, receive, recorder, caller)
            await recorder.order.admit()
            try:
                begin = self._begin_large if len(body) > LARGE_BODY else self._begin
                request, turn = await begin(body, recorder, caller, scope["path_params"].get("model"))
            finally:
                recorder.order.release()
        except ApiError as error:
            await send_refusal(send, self.api, error)
        except RecursionError:
            await send_refusal(send, self.api, bad_request("The body is nested too deeply to be read."))
        except Exception as error:  # noqa: BLE001 - the client gets an answer to any error; it is logged below
            _log(error)
            await send_refusal(send, self.api, ApiError(500, f"The gateway failed: {error!r}"))
        else:
            if LEAVING in (extensions := scope.get("extensions", {})):
                extensions[LEAVING](turn.leave)
            await self._serve(turn, request, recorder, send)

    async def _read_body(self, scope: Scope, receive: Receive, recorder: EpisodeRecorder, caller: Caller) -> bytes | bytearray:
        try:
            return await read_body(scope, receive, recorder.find_body_limit(self.service.max_body_bytes))
        except ApiError as error:
            recorder.ledger.note_error(caller, error)
            raise

    async def _begin(
        self, body: bytes | bytearray, recorder: EpisodeRecorder, caller: Caller, model: str | None
    ) -> tuple[ChatRequest, Turn]:
        reading, streams = self.service.reading, False
        await reading.acquire()
        try:
            request = self._read(parse_body(body), recorder.read_messages, model)
            streams = request.stream
            return request, recorder.begin(request, caller)
        except LongText:
            pass  # Its thread is waited for below, outside of the lock.
        finally:
            # With many concurrent requests, each reaches the engine before the next one is read: a stream in the next step.
            asyncio.get_running_loop().call_soon(reading.release) if streams else reading.release()
        return request, await recorder.begin_long(request, caller)

    async def _begin_large(
        self, body: bytes | bytearray, recorder: EpisodeRecorder, caller: Caller, model: str | None
    ) -> tuple[ChatRequest, Turn]:
        request = await recorder.order.run(lambda: self._read(parse_body(body), normalise, model))
        return request, await recorder.begin_long(request, caller)

    def _read(self, parsed: Mapping[str, Any], read_messages: Normalise, model: str | None) -> ChatRequest:
        """Read a body; `model` is that of the path, if it has one."""
        tag = read_target_tag(parsed.get("model") if model is None else model, self.service.model_name)
        request = self.route.read(parsed, read_messages)
        return request if tag is None else evolve(request, target_tag=tag)

    async def _serve(self, turn: Turn, request: ChatRequest, recorder: EpisodeRecorder, send: Send) -> None:
        writer = self.api.make_writer(request, turn.id, self.service.model_name)
        try:
            if request.stream:
                await send_stream(turn, request.choices, writer, self.api.stream_type, send)
                recorder.keep(self.api.write_kept(writer))
            else:
                body = writer.write_whole(await collect_answers(turn, request.choices))
                recorder.keep(self.api.write_kept(writer))
                await send_reply(send, 200, body)
        except ApiError as error:
            await send_refusal(send, self.api, error)
        except ConnectionAbortedError:
            log.debug("a client left before its answer")
        finally:
            await turn.cancel()


async def _count(body: bytes | bytearray, route: CountRoute, recorder: EpisodeRecorder, caller: Caller) -> int:
    def read() -> ChatRequest:
        return route.read(parse_body(body), normalise)

    await recorder.order.admit()
    try:
        counted = await recorder.order.run(read) if len(body) > LARGE_BODY else read()
        return await recorder.count(counted, caller)
    finally:
        recorder.order.release()


def _find_model(asked: str | None, served: str) -> str:
    """Return the name of the model that is asked for; raises ApiError (404)."""
    if asked not in (None, served) and read_target_tag(asked, served) is None:
        raise ApiError(404, f"Model '{asked}' is not served here; '{served}' is.", code="model_not_found", param="model")
    return asked or served


async def _report_health(scope: Scope, send: Send) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        raise NotServed(f"{scope['method']} {scope['path']} is not served.", ("GET", "HEAD"))
    await send_reply(send, 200, encode_json({"status": "ok"}))


def _log(error: Exception) -> None:
    """Log where the gateway failed, without the message, since it may quote a body."""
    places = "".join(traceback.format_tb(error.__traceback__))
    log.error("the gateway failed on a request: %s\n%s", type(error).__name__, places)
