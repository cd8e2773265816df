"""`POST /v1beta/models/MODEL:generateContent`, `:streamGenerateContent` and `:countTokens`, Gemini's API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from attrs import field, frozen

from astuner.model.gateway.wire_apis import (
    Answer,
    ApiError,
    CountRoute,
    Delta,
    GenerationRoute,
    Headers,
    ModelRoute,
    Route,
    WireApi,
    encode_event,
    encode_json,
    read_bearer,
    wrap_arguments,
)
from astuner_wire_apis.gemini_contents import sign_thoughts
from astuner_wire_apis.gemini_request import gemini_request

STATUSES: Mapping[int, str] = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Names of errors by status; every other status is an `INVALID_ARGUMENT`."""

REASONS = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP"}

VERSIONS = ("v1beta", "v1alpha", "v1")
"""In the paths: SDKs differ in the one that they ask for."""


@frozen(kw_only=True, eq=False)
class ContentWriter:
    """Writes one response. Each event of its stream is a response with the parts that are new."""

    id: str
    model: str
    choices: int
    _thoughts: dict[int, str] = field(factory=dict, init=False)
    """What was streamed of each candidate's reasoning."""

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed."""
        candidates = [
            _write_candidate(
                number, list(_write_parts(answer.reply, _find_thoughts(answer.reply), whole=True)), answer.finish_reason
            )
            for number, answer in enumerate(answers)
        ]
        return encode_json({"candidates": candidates, "usageMetadata": _count_tokens(answers), **self._head()})

    def write_opening(self) -> bytes:
        """Return nothing: a stream has no beginning of its own."""
        return b""

    def write_delta(self, delta: Delta) -> bytes:
        """Return the next parts of a candidate."""
        thoughts = self._thoughts.get(delta.choice, "") + _find_thoughts(delta.fields)
        self._thoughts[delta.choice] = thoughts
        parts = list(_write_parts(delta.whole_fields, thoughts))
        return encode_event({"candidates": [_write_candidate(delta.choice, parts)], **self._head()}) if parts else b""

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return the event that carries the finish reason, and the usage if there is no other candidate."""
        usage = {"usageMetadata": _count_tokens([answer])} if self.choices == 1 else {}
        candidate = _write_candidate(choice, [{"text": ""}], answer.finish_reason)
        return encode_event({"candidates": [candidate], **usage, **self._head()})

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the usage of several candidates."""
        return b"" if self.choices == 1 else encode_event({"usageMetadata": _count_tokens(answers), **self._head()})

    def write_failure(self, error: ApiError) -> bytes:
        """Return the error as an event, which SDKs raise."""
        return encode_event(format_google_error(error))

    def _head(self) -> Mapping[str, Any]:
        return {"modelVersion": self.model, "responseId": self.id}


def describe_google_model(name: str) -> Mapping[str, Any]:
    """Return a model as Google lists it."""
    methods = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "version": "1", "displayName": name, "supportedGenerationMethods": methods}


def read_google_key(headers: Headers) -> str:
    """Return the key of a request's headers; empty if they have none."""
    key = next((value for name, value in headers if name == b"x-goog-api-key"), b"")
    return key.decode("latin-1").strip() or read_bearer(headers)


def read_query_key(query: bytes) -> str:
    """Return the key of a request's query, `?key=…`; empty if it has none."""
    return parse_qs(query.decode("latin-1")).get("key", [""])[0]


def format_google_error(error: ApiError) -> Mapping[str, Any]:
    """Return the JSON body of a refusal."""
    # Agents detect an overlong conversation by these words: this shape has no field for a code.
    full = "The input token count exceeds the maximum number of tokens allowed. "
    message = f"{full if error.code == 'context_length_exceeded' else ''}{error.message}"
    return {"error": {"code": error.status, "message": message, "status": STATUSES.get(error.status, "INVALID_ARGUMENT")}}


def _list_routes(version: str) -> Sequence[Route]:
    models = f"/{version}/models"
    model = f"{models}/{{model}}"
    return (
        GenerationRoute(f"{model}:generateContent", gemini_request),
        GenerationRoute(f"{model}:streamGenerateContent", partial(gemini_request, stream=True)),
        CountRoute(f"{model}:countTokens", partial(gemini_request, counting=True), lambda count: {"totalTokens": count}),
        ModelRoute(models, lambda name: {"models": [describe_google_model(name)]}),
        ModelRoute(model, describe_google_model),
    )


GEMINI_CONTENT = WireApi(
    routes=tuple(route for version in VERSIONS for route in _list_routes(version)),
    make_writer=lambda request, id_, model: ContentWriter(id=id_, model=model, choices=request.choices),
    read_key=read_google_key,
    read_query_key=read_query_key,
    format_error=format_google_error,
)
"""The API of Google's Gemini models, which a path names. Streams are server-sent events, as clients ask for by `?alt=sse`."""


def _write_candidate(number: int, parts: Sequence[Mapping[str, Any]], reason: str | None = None) -> Mapping[str, Any]:
    ended = {} if reason is None else {"finishReason": REASONS[reason]}
    return {"content": {"parts": parts, "role": "model"}, **ended, "index": number}


def _find_thoughts(fields: Mapping[str, Any]) -> str:
    return fields.get("reasoning_content") or ""


def _write_parts(fields: Mapping[str, Any], thoughts: str, *, whole: bool = False) -> Iterator[Mapping[str, Any]]:
    """Yield the parts, of which a `whole` answer has one at least besides its reasoning.

    A call is signed with the reasoning before it, which clients that drop thoughts send back.
    """
    signed = {"thoughtSignature": sign_thoughts(thoughts)} if thoughts else {}
    if fields.get("reasoning_content"):
        yield {"text": fields["reasoning_content"], "thought": True}
    if fields.get("content") or (whole and not fields.get("tool_calls")):
        yield {"text": fields["content"] or ""}
    for call in fields.get("tool_calls") or ():
        function = call["function"]
        made = {"id": call["id"], "name": function["name"], "args": wrap_arguments(function["arguments"])}
        yield {"functionCall": made, **signed}


def _count_tokens(answers: Sequence[Answer]) -> Mapping[str, int]:
    """Count tokens as Google does: thoughts are not part of the candidates."""
    prompt = max(answer.prompt_tokens for answer in answers)
    completion = sum(answer.completion_tokens for answer in answers)
    thoughts = sum(answer.reasoning_tokens for answer in answers)
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": completion - thoughts,
        "thoughtsTokenCount": thoughts,
        "cachedContentTokenCount": min(answer.cached_tokens for answer in answers),
        "totalTokenCount": prompt + completion,
    }
