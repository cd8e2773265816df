"""The contract of wire APIs: bodies in, answers out, whole or as a stream, and refusals that name what is wrong."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from unittest import SkipTest

from attrs import field, frozen

from astuner.model.gateway.wire_apis import (
    CHAT_COMPLETIONS,
    Answer,
    ApiError,
    ChatRequest,
    Delta,
    GenerationRoute,
    ModelRoute,
    Route,
    WireApi,
    normalise,
)
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.shape import forbid_errors

SAID = "forty-two"
ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, 10**400, "", "x", "\ud800", [], {}, [[]], [None], [5], {"type": []}, {"x": 1})
"""Values of every JSON type, few of them right anywhere."""
STATUSES = (400, 401, 404, 413, 429, 500, 503, 504)


@frozen
class Response:
    """What the gateway sent."""

    status: int
    headers: Mapping[bytes, bytes]
    parts: list[bytes] = field(factory=list)

    @property
    def text(self) -> str:
        """The whole body."""
        return b"".join(self.parts).decode("utf-8", "surrogatepass")


class WireApiContract(Contract):
    """Rules for wire APIs. Give bodies, and the rules with a gateway and a scripted engine are run too."""

    kind = "wire_api"
    body: ClassVar[Mapping[str, Any]] = {}
    """A body of the first route that generates: one message of a user, answered in one piece."""
    streamed_body: ClassVar[Mapping[str, Any]] = {}
    """The same, answered as a stream; empty for an API without streams, or with a route of their own."""
    key_header: ClassVar[tuple[str, str]] = ("authorization", "Bearer {key}")
    """The header in which a client of this API sends its key."""

    @property
    def _api(self) -> WireApi:
        api = self.target()
        assert isinstance(api, WireApi), (
            f"{self._blame} is {type(api).__name__}: let it be an astuner.model.gateway.wire_apis.WireApi"
        )
        return api

    @property
    def _generation(self) -> GenerationRoute:
        found = next((route for route in self._api.routes if isinstance(route, GenerationRoute)), None)
        assert found is not None, f"{self._blame} has no GenerationRoute, so that no agent can ask it anything"
        return found

    @self_contained
    def test_it_is_a_wire_api(self) -> None:
        """It is a `WireApi` with at least one route that generates."""
        assert self._generation

    @self_contained
    def test_its_paths_are_its_own(self) -> None:
        """Paths begin with `/`, have no parameter but `{model}`, and differ from each other and from those of core."""
        posted = [route.path for route in self._api.routes if not isinstance(route, ModelRoute)]
        for path in (route.path for route in self._api.routes):
            plain = path.replace("{model}", "", 1)
            assert path.startswith("/"), f"{self._blame}: the path {path!r} must begin with '/'"
            assert "{" not in plain, f"{self._blame}: the path {path!r} may have '{{model}}' in it, once, and no other parameter"
        assert len(set(posted)) == len(posted), f"{self._blame}: two routes have one path: {', '.join(posted)}"
        taken = {route.path for route in CHAT_COMPLETIONS.routes} & set(posted) if self._api != CHAT_COMPLETIONS else ()
        assert not taken, f"{self._blame}: {', '.join(taken)} is a path of core's own API, which would answer"

    @self_contained
    def test_a_refusal_says_why(self) -> None:
        """A refusal of any status is a JSON object that holds its message."""
        for status in STATUSES:
            with forbid_errors(f"{self._blame}: format_error", "return a JSON object"):
                text = json.dumps(self._api.format_error(ApiError(status, SAID)))
            assert SAID in text, f"{self._blame}: format_error leaves the message out: {text}"

    @self_contained
    def test_what_makes_no_sense_is_refused(self) -> None:
        """A body without what it needs, and a field of any type, are refused with ApiError, or read; nothing else is raised."""
        for route in self._list_posted():
            for body in self._list_odd_bodies():
                self._read(route, body)

    def test_a_body_is_read(self) -> None:
        """The body becomes a request with messages, or with prompts, and the streamed one a request for a stream."""
        for body in self._bodies():
            request = self._read(self._generation, body)
            assert request is not None, f"{self._blame} refuses the body of this test: {body}"
            assert request.messages or request.prompts, f"{self._blame}: no message was read of {body}"
            wanted = body == self.streamed_body
            assert request.stream is wanted, f"{self._blame}: `stream` is {request.stream} for the body {body}"

    def test_an_answer_is_written(self) -> None:
        """What the model says is in the response, in one piece or in the parts of a stream, and a later failure too."""
        for body in self._bodies():
            request = self._read(self._generation, body)
            assert request is not None, f"{self._blame} refuses the body of this test: {body}"
            answer = Answer(
                reply={"role": "assistant", "content": SAID}, finish_reason="stop", prompt_tokens=3, completion_tokens=2
            )
            with forbid_errors(f"{self._blame}: the writer of an answer", "write any answer"):
                if not request.stream:
                    written = self._api.make_writer(request, "1", "m").write_whole([answer])
                else:
                    writer = self._api.make_writer(request, "1", "m")
                    parts = [writer.write_opening(), writer.write_delta(Delta(0, {"content": SAID}, prompt_tokens=3))]
                    parts += [writer.write_done(0, answer), writer.write_closing([answer])]
                    written = b"".join(parts)
                    failed = self._api.make_writer(request, "1", "m").write_failure(ApiError(503, "no engine"))
                    assert b"no engine" in failed, f"{self._blame}: write_failure leaves the message out: {failed!r}"
            assert SAID.encode() in written, f"{self._blame}: the answer {SAID!r} is missing in {written!r}"

    def test_an_answer_without_text_is_written(self) -> None:
        """The model may say nothing: `content` is empty then, or null next to calls, and the response is written all the same."""
        reply = {"role": "assistant", "content": None}
        answer = Answer(reply=reply, finish_reason="stop", prompt_tokens=3, completion_tokens=1)
        for body in self._bodies():
            request = self._read(self._generation, body)
            assert request is not None, f"{self._blame} refuses the body of this test: {body}"
            writer = self._api.make_writer(request, "1", "m")
            with forbid_errors(f"{self._blame}: the writer of an answer without text", "write any answer"):
                if request.stream:
                    _ = [writer.write_opening(), writer.write_done(0, answer), writer.write_closing([answer])]
                else:
                    writer.write_whole([answer])

    def test_a_gateway_records_what_it_answers(self) -> None:
        """Through a gateway, the call is recorded and trained, and a stream comes in parts with the API's content type."""
        for body in self._bodies():
            response, calls = asyncio.run(self._ask(body))
            assert response.status == 200, f"{self._blame}: {body} was answered with {response.status}: {response.text}"
            assert [call.untrained for call in calls] == [None], f"{self._blame}: recorded {calls} for {body}"
            if body == self.streamed_body:
                given = response.headers[b"content-type"].decode()
                assert given == self._api.stream_type, f"{self._blame}: a stream came as {given}"
                assert len(response.parts) > 1, f"{self._blame}: a stream came in one part: {response.text}"
            else:
                assert SAID in response.text, f"{self._blame}: the answer {SAID!r} is missing in {response.text}"

    def test_a_key_of_nobody_is_refused(self) -> None:
        """Without a key of an episode, nothing is answered: 401, in the shape of the API."""
        response, calls = asyncio.run(self._ask(next(self._bodies()), key="foreign"))
        assert (response.status, calls) == (401, ()), f"{self._blame}: a foreign key was answered with {response.status}"

    def _list_posted(self) -> list[Any]:
        return [route for route in self._api.routes if not isinstance(route, ModelRoute)]

    def _bodies(self) -> Iterator[Mapping[str, Any]]:
        if not self.body and not self.streamed_body:
            raise SkipTest("set `body`, a body that asks for an answer, and `streamed_body`")
        yield from (body for body in (self.body, self.streamed_body) if body)

    def _list_odd_bodies(self) -> Iterator[Mapping[str, Any]]:
        yield {}
        for body in (self.body, self.streamed_body):
            for name in body:
                yield {other: value for other, value in body.items() if other != name}
                yield from ({**body, name: value} for value in ODD)

    def _read(self, route: Route, body: Mapping[str, Any]) -> ChatRequest | None:
        assert not isinstance(route, ModelRoute)
        given = copy.deepcopy(body)
        try:
            found = route.read(given, normalise)
        except ApiError:
            return None
        except Exception as error:
            problem = f"reading {str(body)[:200]} raised {type(error).__name__}: {error}"
            raise AssertionError(f"{self._blame}: {problem}: raise `bad_request(message, field)`") from error
        assert isinstance(found, ChatRequest), f"{self._blame}: `read` of {route.path} returned {found!r:.80}, not a ChatRequest"
        return found

    async def _ask(self, body: Mapping[str, Any], key: str | None = None) -> tuple[Response, Any]:
        from astuner.contract.schema import Sampling
        from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
        from astuner.model.gateway import EpisodeSpec, Gateway
        from astuner.model.gateway.app import make_app
        from astuner.model.rendering import TemplateRenderer
        from astuner_devkit.tokenizer import tiny_tokenizer

        tokenizer = tiny_tokenizer()
        engine = ScriptedEngine(tokenizer=tokenizer, reply=lambda prompt, request: SAID)
        gateway = Gateway(engine, TemplateRenderer(tokenizer))
        await engine.start()
        await gateway.start()
        sampling = Sampling(max_tokens=100)
        spec = EpisodeSpec(episode_id="e", seed=1, sampling=sampling, max_model_len=2000, trainable_targets=None)
        recorder = gateway.open_episode(spec)
        try:
            app = make_app(gateway.recorder, model_name="m", max_body_bytes=1 << 20, wire_apis=[self._api])
            name, form = self.key_header
            header = (name.encode(), form.format(key=key or recorder.tuner.as_oai_baseurl_apikey().api_key).encode())
            return await _post(app, self._generation.path.format(model="m"), json.dumps(body).encode(), header), recorder.calls
        finally:
            await gateway.close()
            await engine.close()


async def _post(app: Any, path: str, body: bytes, header: tuple[bytes, bytes]) -> Response:
    scope = {"type": "http", "method": "POST", "path": path, "headers": [header], "query_string": b""}
    waiting: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return waiting.pop() if waiting else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return Response(sent[0]["status"], dict(sent[0]["headers"]), [one["body"] for one in sent[1:] if one["body"]])
