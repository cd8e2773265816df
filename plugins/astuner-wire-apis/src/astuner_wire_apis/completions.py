"""`POST /v1/completions`, OpenAI's API: a text or token ids are continued verbatim, without a chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from attrs import field, frozen

from astuner.model.gateway.wire_apis import (
    LARGEST,
    MOST_CHOICES,
    MOST_LOGPROBS,
    Answer,
    ChatRequest,
    ChatWriter,
    GenerationRoute,
    Logprobs,
    WireApi,
    bad_request,
    format_value,
    read_common_fields,
    read_flag,
    read_integer,
    rename_messages,
)

DEFAULT_MAX_TOKENS = 16
"""This API's default."""


def completion_request(body: Mapping[str, Any]) -> ChatRequest:
    """Read a body of completions; raises ApiError (400) that names the reason and the parameter."""
    if body.get("suffix"):
        raise bad_request("'suffix' is not served; put everything that the model should see in 'prompt'.", "suffix")
    if read_flag(body, "echo", False):
        raise bad_request("'echo' is not served; the client has the prompt.", "echo")
    common = read_common_fields(body)
    choices = common["n"]
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
        logprobs=top_logprobs is not None,
        top_logprobs=top_logprobs or 0,
        max_tokens=read_integer(body, "max_tokens", 1, LARGEST) or DEFAULT_MAX_TOKENS,
        template_kwargs={},
        body={},
        **common,
    )


@frozen(kw_only=True, eq=False)
class CompletionWriter(ChatWriter):
    """Writes one text completion."""

    _offsets: dict[int, int] = field(factory=dict, init=False)
    """Characters of the tokens whose log-probabilities were written, by choice."""

    def write_opening(self) -> bytes:
        """Return nothing: a choice begins with its text."""
        return b""

    def _choice(
        self, number: int, kind: str, fields: Mapping[str, Any], finish_reason: str | None, logprobs: Logprobs
    ) -> Mapping[str, Any]:
        text, shown = fields.get("content") or "", self._format_logprobs(number, logprobs)
        return {"index": number, "text": text, "logprobs": shown, "finish_reason": finish_reason}

    def _head(self, part: str = "") -> dict[str, Any]:
        return {"id": f"cmpl-{self.id}", "object": "text_completion", "created": self.created, "model": self.model}

    def _usage(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """Count the tokens of all prompts, each once, and of all answers."""
        counted = super()._usage(answers)
        counted["prompt_tokens"] = sum(answer.prompt_tokens for answer in answers[:: self.request.n])
        counted["total_tokens"] = counted["prompt_tokens"] + counted["completion_tokens"]
        return counted

    def _format_logprobs(self, choice: int, content: Logprobs) -> Mapping[str, Any] | None:
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


COMPLETIONS = WireApi(
    routes=(GenerationRoute("/v1/completions", lambda body, read_messages: completion_request(body)),),
    make_writer=lambda request, id_, model: CompletionWriter(request=request, id=id_, model=model),
    format_error=partial(rename_messages, name="prompt"),
)
"""The API before chat, for agents that write their own prompts."""


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
