"""`POST /v1/completions`, OpenAI's API: a text or token ids are continued verbatim, without a chat template."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from astuner.gateway.dialects.chat_completions import END_OF_STREAM, IGNORED, MOST_CHOICES, MOST_LOGPROBS, usage
from astuner.gateway.dialects.dialect import Headers, Normalise, read_bearer
from astuner.gateway.dialects.events import encode_event, encode_json
from astuner.gateway.dialects.fields import (
    LARGEST,
    format_value,
    parse_body,
    read_flag,
    read_integer,
    read_number,
    read_object,
    read_strings,
)
from astuner.gateway.recording.request import ChatRequest
from astuner.rendering.errors import bad_request

if TYPE_CHECKING:
    from astuner.gateway.recording.choice_events import Answer, Delta
    from astuner.rendering.errors import ApiError

DEFAULT_MAX_TOKENS = 16
"""This API's default."""


class Completions:
    """The API before chat, for agents that write their own prompts."""

    path = "/v1/completions"

    def key(self, headers: Headers) -> str:
        """Return the bearer token."""
        return read_bearer(headers)

    def read(self, raw: bytes, read_messages: Normalise) -> ChatRequest:
        """Parse a body; raises ApiError (400)."""
        return completion_request(parse_body(raw))

    def writer(self, request: ChatRequest, *, id_: str, model: str) -> CompletionWriter:
        """Return a writer of `text_completion` and its chunks."""
        return CompletionWriter(request=request, id=f"cmpl-{id_}", model=model)

    def error(self, error: ApiError) -> Mapping[str, Any]:
        """Return OpenAI's error object."""
        body = error.body
        if error.param == "messages":
            body["error"]["param"] = "prompt"
        return body


def completion_request(body: Mapping[str, Any]) -> ChatRequest:
    """Read a body of completions; raises ApiError (400) that names the reason and the parameter."""
    if body.get("suffix"):
        raise bad_request("'suffix' is not served; put everything that the model should see in 'prompt'.", "suffix")
    if read_flag(body, "echo", False):
        raise bad_request("'echo' is not served; the client has the prompt.", "echo")
    choices = read_integer(body, "n", 1, MOST_CHOICES) or 1
    best_of = read_integer(body, "best_of", 1, MOST_CHOICES)
    if best_of not in (None, choices):
        raise bad_request("'best_of' must be the same as 'n': every sampled answer is returned.", "best_of")
    prompts = _prompts(body.get("prompt"))
    if choices * len(prompts) > MOST_CHOICES:
        raise bad_request(f"{len(prompts)} prompts with {choices} choices each are more than {MOST_CHOICES}.", "prompt")
    top_logprobs = read_integer(body, "logprobs", 0, MOST_LOGPROBS)
    return ChatRequest(
        messages=(),
        prompts=prompts,
        n=choices,
        stop=read_strings(body, "stop"),
        seed=read_integer(body, "seed", None, None),
        logprobs=top_logprobs is not None,
        top_logprobs=top_logprobs or 0,
        max_tokens=read_integer(body, "max_tokens", 1, LARGEST) or DEFAULT_MAX_TOKENS,
        temperature=read_number(body, "temperature", 0.0, 100.0),
        top_p=read_number(body, "top_p", 0.0, 1.0),
        top_k=read_integer(body, "top_k", -1, LARGEST),
        stream=read_flag(body, "stream", False),
        include_usage=read_flag(read_object(body, "stream_options"), "include_usage", False),
        template_kwargs={},
        ignored=tuple(name for name in IGNORED if body.get(name)),
        body={},
    )


@define(kw_only=True, eq=False)
class CompletionWriter:
    """Writes one text completion."""

    request: ChatRequest
    id: str
    model: str
    created: int = field(factory=lambda: int(time.time()))
    _offsets: dict[int, int] = field(factory=dict, init=False)
    """Characters of the tokens whose log-probabilities were written, by choice."""

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed."""
        choices = [
            self._choice(number, answer.reply.get("content") or "", answer.finish_reason, answer.logprobs)
            for number, answer in enumerate(answers)
        ]
        return encode_json({**self._head(), "choices": choices, "usage": self._usage(answers)})

    def write_opening(self) -> bytes:
        """Return nothing: a choice begins with its text."""
        return b""

    def write_delta(self, delta: Delta) -> bytes:
        """Return a chunk."""
        return self._chunk(self._choice(delta.choice, delta.fields.get("content") or "", None, delta.logprobs))

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return the chunk that carries the finish reason."""
        return self._chunk(self._choice(choice, "", answer.finish_reason, answer.logprobs or None))

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the usage, if requested, and the end."""
        if not self.request.include_usage:
            return END_OF_STREAM
        return encode_event({**self._head(), "choices": [], "usage": self._usage(answers)}) + END_OF_STREAM

    def write_failure(self, error: ApiError) -> bytes:
        """Return the error in an event: SDKs raise what they find there."""
        return encode_event(error.body)

    def _usage(self, answers: Sequence[Answer]) -> Mapping[str, Any]:
        """Count the tokens of all prompts, each once, and of all answers."""
        counted = dict(usage(answers))
        counted["prompt_tokens"] = sum(answer.prompt_tokens for answer in answers[:: self.request.n])
        counted["total_tokens"] = counted["prompt_tokens"] + counted["completion_tokens"]
        return counted

    def _choice(
        self, number: int, text: str, finish_reason: str | None, logprobs: Sequence[Mapping[str, Any]] | None
    ) -> Mapping[str, Any]:
        return {"index": number, "text": text, "logprobs": self._logprobs(number, logprobs), "finish_reason": finish_reason}

    def _logprobs(self, choice: int, content: Sequence[Mapping[str, Any]] | None) -> Mapping[str, Any] | None:
        if content is None:
            return None
        offsets, offset = [], self._offsets.get(choice, 0)
        for entry in content:
            offsets.append(offset)
            offset += len(entry["token"])
        self._offsets[choice] = offset
        return {
            "tokens": [entry["token"] for entry in content],
            "token_logprobs": [entry["logprob"] for entry in content],
            "top_logprobs": [{other["token"]: other["logprob"] for other in entry["top_logprobs"]} for entry in content],
            "text_offset": offsets,
        }

    def _chunk(self, choice: Mapping[str, Any]) -> bytes:
        return encode_event({**self._head(), "choices": [choice]})

    def _head(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}


def _prompts(prompt: Any) -> tuple[str | tuple[int, ...], ...]:
    """Return the prompts: a text, a list of ids, or a list of these."""
    several = isinstance(prompt, list) and prompt and not _is_id(prompt[0])
    return tuple(_prompt(each) for each in (prompt if several else [prompt]))


def _prompt(prompt: Any) -> str | tuple[int, ...]:
    if isinstance(prompt, str) and prompt:
        try:
            prompt.encode()
        except UnicodeEncodeError:
            raise bad_request("'prompt' holds half a surrogate pair, which no tokenizer can encode.", "prompt") from None
        return prompt
    if not isinstance(prompt, list) or not prompt or not all(map(_is_id, prompt)):
        text = (
            f"'prompt' must be a text, a list of token ids, or a list of these, none of them empty; not {format_value(prompt)}."
        )
        raise bad_request(text, "prompt")
    return tuple(prompt)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST
