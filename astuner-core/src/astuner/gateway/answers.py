"""Answers in the form that OpenAI's SDKs read: whole, and as server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from astuner.schema import Message


@frozen(kw_only=True, eq=False)
class Answer:
    """The finished answer of one choice."""

    reply: Message
    finish_reason: str
    """`stop`, `length` or `tool_calls`."""
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    logprobs: Sequence[Mapping[str, Any]] | None = None


@frozen(eq=False)
class Delta:
    """The next part of a choice's answer."""

    choice: int
    fields: Mapping[str, Any]
    """As in `choices[].delta`."""
    logprobs: Sequence[Mapping[str, Any]] | None = None


@frozen(eq=False)
class Done:
    """The end of a choice: an answer, or the error that took its place."""

    choice: int
    result: Answer | Exception


@frozen(kw_only=True)
class Envelope:
    """What every part of a response repeats."""

    id: str
    model: str
    created: int = field(factory=lambda: int(time.time()))

    def whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed."""
        choices = [
            {
                "index": number,
                "message": {**answer.reply, "refusal": None},
                "logprobs": _logprobs(answer.logprobs),
                "finish_reason": answer.finish_reason,
            }
            for number, answer in enumerate(answers)
        ]
        return _bytes({**self._head("chat.completion"), "choices": choices, "usage": usage(answers)})

    def part(
        self,
        choice: int,
        delta: Mapping[str, Any],
        finish_reason: str | None = None,
        logprobs: Sequence[Mapping[str, Any]] | None = None,
    ) -> bytes:
        """Return one event of a stream."""
        fields = {"index": choice, "delta": delta, "logprobs": _logprobs(logprobs), "finish_reason": finish_reason}
        return event({**self._head("chat.completion.chunk"), "choices": [fields]})

    def usage(self, answers: Sequence[Answer]) -> bytes:
        """Return the event that carries the usage."""
        return event({**self._head("chat.completion.chunk"), "choices": [], "usage": usage(answers)})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "system_fingerprint": None}


def usage(answers: Sequence[Answer]) -> Mapping[str, Any]:
    """Count tokens as OpenAI does: the prompt once, all choices' answers."""
    prompt = max(answer.prompt_tokens for answer in answers)
    completion = sum(answer.completion_tokens for answer in answers)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": min(answer.cached_tokens for answer in answers)},
    }


def event(body: Mapping[str, Any]) -> bytes:
    """Return a server-sent event."""
    return b"data: " + _bytes(body) + b"\n\n"


END_OF_STREAM = b"data: [DONE]\n\n"


def _logprobs(content: Sequence[Mapping[str, Any]] | None) -> Mapping[str, Any] | None:
    return None if content is None else {"content": content, "refusal": None}


def _bytes(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
