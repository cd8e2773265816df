"""`POST /v1/chat/completions`, OpenAI's API."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from astuner.model.gateway.recording.messages import normalise
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.wire_apis.chat_tools import choose_tools, continues_answer, read_custom_calls, write_custom_call
from astuner.model.gateway.wire_apis.fields import (
    LARGEST,
    read_flag,
    read_integer,
    read_list,
    read_number,
    read_object,
    read_strings,
    read_text,
)
from astuner.model.gateway.wire_apis.wire_api import GenerationRoute, ModelRoute, Normalise, WireApi, encode_event, encode_json
from astuner.model.rendering.errors import bad_request

if TYPE_CHECKING:
    from astuner.model.gateway.recording.choice_events import Answer, Delta
    from astuner.model.rendering.errors import ApiError

IGNORED = (
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "length_penalty", "min_p", "logit_bias"),
    *("min_tokens", "stop_token_ids", "ignore_eos", "bad_words", "allowed_token_ids", "use_beam_search"),
    *("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    *("continue_final_message", "verbosity", "web_search_options"),
)
"""Fields that would change the distribution, in OpenAI's API or in servers of it; no engine receives them."""

MOST_CHOICES = 128

MOST_LOGPROBS = 20

END_OF_STREAM = b"data: [DONE]\n\n"

Logprobs = Sequence[Mapping[str, Any]] | None
"""An entry per token of a part, if requested."""


def chat_request(body: Mapping[str, Any], read_messages: Normalise = normalise) -> ChatRequest:
    """Read a body of chat completions; raises ApiError (400) that names the reason and the parameter."""
    if body.get("functions"):
        raise bad_request("'functions' is not served; send 'tools'.", "functions")
    if body.get("modalities") not in (None, [], ["text"]):
        raise bad_request("'modalities' may be ['text'] alone; no other output is served.", "modalities")
    chosen = choose_tools(read_list(body, "tools"), body.get("tool_choice") or "auto")
    sent = read_custom_calls(body.get("messages"))
    messages = read_messages(sent)
    common, continues = read_common_fields(body), continues_answer(messages, body)
    if continues:
        common["ignored"] = tuple(name for name in common["ignored"] if name != "continue_final_message")
    logprobs = read_flag(body, "logprobs", False)
    effort = read_text(body, "reasoning_effort")
    return ChatRequest(
        messages=messages,
        continues=continues,
        tools=chosen.tools,
        tool_forms=dict.fromkeys(chosen.custom, "custom"),
        calls_tools=bool(chosen.tools) and chosen.choice != "none",
        parallel_tool_calls=read_flag(body, "parallel_tool_calls", True),
        constraint=chosen.constraint or _format_constraint(body.get("response_format")),
        logprobs=logprobs,
        top_logprobs=(read_integer(body, "top_logprobs", 0, MOST_LOGPROBS) or 0) if logprobs else 0,
        max_tokens=read_integer(body, "max_completion_tokens", 1, LARGEST) or read_integer(body, "max_tokens", 1, LARGEST),
        # Templates of models with an effort setting use this name; others get an extra variable.
        template_kwargs={**({"reasoning_effort": effort} if effort else {}), **read_object(body, "chat_template_kwargs")},
        # For engines that speak this API themselves, without its newer parts.
        body={**body, "messages": sent, "tools": list(chosen.tools), "tool_choice": chosen.choice} if chosen.narrowed else body,
        **common,
    )


def read_common_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `ChatRequest` that OpenAI's completions with and without chat share."""
    return {
        "n": read_integer(body, "n", 1, MOST_CHOICES) or 1,
        "stop": read_strings(body, "stop"),
        "seed": read_integer(body, "seed", None, None),
        "temperature": read_number(body, "temperature", 0.0, 100.0),
        "top_p": read_number(body, "top_p", 0.0, 1.0),
        "top_k": read_integer(body, "top_k", -1, LARGEST),
        "stream": read_flag(body, "stream", False),
        "include_usage": read_flag(read_object(body, "stream_options"), "include_usage", False),
        "ignored": () if body.keys().isdisjoint(IGNORED) else tuple(name for name in IGNORED if body.get(name)),
    }


@frozen(kw_only=True, eq=False)
class ChatWriter:
    """Writes one chat completion."""

    request: ChatRequest
    id: str
    model: str
    created: int = field(factory=lambda: int(time.time()))
    _custom: set[tuple[int, int]] = field(factory=set, init=False)
    """Choices, and the numbers of their calls of custom tools, which are streamed in one piece."""

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed."""
        choices = [
            self._choice(number, "message", {**self._show(answer.reply), "refusal": None}, answer.finish_reason, answer.logprobs)
            for number, answer in enumerate(answers)
        ]
        return encode_json({**self._head(), "choices": choices, "usage": self._usage(answers)})

    def write_opening(self) -> bytes:
        """Return the chunk that begins each choice."""
        return b"".join(self._chunk(choice, {"role": "assistant", "content": ""}, None, None) for choice in range(self.request.n))

    def write_delta(self, delta: Delta) -> bytes:
        """Return a chunk."""
        fields, calls = delta.fields, delta.fields.get("tool_calls")
        if calls and self.request.tool_forms:
            self._custom.update((delta.choice, call["index"]) for call in calls if self._is_custom(call))
            fields = {**fields, "tool_calls": [one for one in calls if (delta.choice, one["index"]) not in self._custom]}
        return self._chunk(delta.choice, fields, None, delta.logprobs)

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return the chunk that carries the finish reason, after the calls of custom tools."""
        calls = enumerate(answer.reply.get("tool_calls") or () if self.request.tool_forms else ())
        shown = [{"index": number, **write_custom_call(call)} for number, call in calls if self._is_custom(call)]
        before = self._chunk(choice, {"tool_calls": shown}, None, None) if shown else b""
        return before + self._chunk(choice, {}, answer.finish_reason, answer.logprobs or None)

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the usage, if requested, and the end."""
        if not self.request.include_usage:
            return END_OF_STREAM
        return encode_event({**self._head(".chunk"), "choices": [], "usage": self._usage(answers)}) + END_OF_STREAM

    def write_failure(self, error: ApiError) -> bytes:
        """Return the error as an event, which SDKs raise."""
        return encode_event(error.body)

    def _is_custom(self, call: Mapping[str, Any]) -> bool:
        return self.request.tool_forms.get(call.get("function", {}).get("name")) == "custom"

    def _show(self, reply: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.request.tool_forms or not reply.get("tool_calls"):
            return reply
        return {**reply, "tool_calls": [write_custom_call(one) if self._is_custom(one) else one for one in reply["tool_calls"]]}

    def _chunk(self, choice: int, delta: Mapping[str, Any], finish_reason: str | None, logprobs: Logprobs) -> bytes:
        fields = self._choice(choice, "delta", delta, finish_reason, logprobs)
        return encode_event({**self._head(".chunk"), "choices": [fields]})

    def _choice(
        self, number: int, kind: str, fields: Mapping[str, Any], finish_reason: str | None, logprobs: Logprobs
    ) -> Mapping[str, Any]:
        shown = None if logprobs is None else {"content": logprobs, "refusal": None}
        return {"index": number, kind: fields, "logprobs": shown, "finish_reason": finish_reason}

    def _head(self, part: str = "") -> dict[str, Any]:
        known = {"id": f"chatcmpl-{self.id}", "object": f"chat.completion{part}", "created": self.created, "model": self.model}
        return {**known, "system_fingerprint": None}

    def _usage(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """Count tokens as OpenAI does: the prompt once, all choices' answers."""
        prompt = max(answer.prompt_tokens for answer in answers)
        completion = sum(answer.completion_tokens for answer in answers)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "completion_tokens_details": {"reasoning_tokens": sum(answer.reasoning_tokens for answer in answers)},
            "prompt_tokens_details": {"cached_tokens": min(answer.cached_tokens for answer in answers)},
        }


def describe_model(name: str) -> Mapping[str, Any]:
    """Return a model as OpenAI lists it, and as clients of another API read it that send the same header and path."""
    known = {"id": name, "object": "model", "created": 0, "owned_by": "astuner"}
    return {**known, "type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


CHAT_COMPLETIONS = WireApi(
    routes=(
        GenerationRoute("/v1/chat/completions", chat_request),
        # As Azure's clients ask; any name of a deployment is the served model.
        GenerationRoute("/openai/deployments/{model}/chat/completions", chat_request),
        ModelRoute("/v1/models", lambda name: {"object": "list", "data": [describe_model(name)]}),
        ModelRoute("/v1/models/{model}", describe_model),
    ),
    make_writer=lambda request, id_, model: ChatWriter(request=request, id=id_, model=model),
)
"""The API that most agents speak."""


def _format_constraint(wanted: Any) -> Mapping[str, Any] | None:
    kind = wanted.get("type") if isinstance(wanted, dict) else wanted
    if kind in (None, "text"):
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    described = wanted.get("json_schema") if isinstance(wanted, dict) else None
    if kind != "json_schema" or not isinstance(described, dict) or not isinstance(described.get("schema"), dict):
        raise bad_request("'response_format' must be text, json_object, or json_schema with a schema.", "response_format")
    return {"type": "json_schema", "schema": described["schema"]}
