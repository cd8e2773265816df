"""Calls through a chat-only engine without token ids: served and recorded, never trained."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np
from attrs import define, field, frozen

from astuner.contract.schema import Call
from astuner.model.gateway.recording.choice_events import Answer, Delta, Done
from astuner.model.gateway.recording.messages import normalise
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.recording.running_call import FinishedCall, Plan, RunningCall
from astuner.model.rendering.errors import ApiError

PASSED_ON = ("messages", "tools", "tool_choice", "response_format", "parallel_tool_calls", "stop", "reasoning_effort")


class ChatEngine(Protocol):
    """The additional method of an engine without token ids."""

    async def chat(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer one request in OpenAI's chat form, with one choice; raises ApiError to refuse it."""


@frozen(kw_only=True, eq=False)
class ChatPlan(Plan):
    """The plan of a chat-only call."""

    request: ChatRequest
    temperature: float
    top_p: float
    max_tokens: int
    seed: int

    @property
    def body(self) -> dict[str, Any]:
        """The request for the engine."""
        passed_on = {name: self.request.body[name] for name in PASSED_ON if self.request.body.get(name) is not None}
        settled = {"temperature": self.temperature, "top_p": self.top_p, "max_tokens": self.max_tokens}
        # Remote APIs take signed 64-bit seeds.
        return {**passed_on, **settled, "seed": self.seed >> 1}


@define(eq=False)
class ChatCall(RunningCall[ChatPlan]):
    """Runs one plan with a chat-only engine."""

    engine: ChatEngine
    _answer: Answer | None = field(default=None, init=False)

    async def _generate(self) -> None:
        self._answer = read_answer(await self.engine.chat(self.plan.body))

    def _end(self) -> None:
        """Pass the answer on, in one piece if it is streamed."""
        answer = cast("Answer", self._answer)
        if self.plan.request.stream:
            self._stream(answer.reply)
        self._record()
        self.emit(Done(self.plan.choice, answer))

    def _stream(self, reply: Mapping[str, Any]) -> None:
        for key in ("reasoning_content", "content"):
            if reply.get(key):
                self.emit(Delta(self.plan.choice, {key: reply[key]}))
        for number, call in enumerate(reply.get("tool_calls", ())):
            self.emit(Delta(self.plan.choice, {"tool_calls": [{"index": number, **call}]}, call=call))

    def _make_record(self, failure: str | None) -> FinishedCall:
        plan, answer = self.plan, self._answer
        reason = "stop" if answer is None or answer.finish_reason != "length" else "length"
        call = Call(
            index=plan.index,
            agent=plan.agent,
            target_tag=plan.target_tag,
            parent=None,
            kept=0,
            prompt_ids=np.empty(0, np.int32),
            output_ids=np.empty(0, np.int32),
            logprobs=np.empty(0, np.float32),
            finish_reason="abort" if failure else reason,
            untrained=failure or plan.untrained,
            messages=plan.request.messages,
            reply={} if failure or answer is None else answer.reply,
            tools=plan.request.tools,
            temperature=plan.temperature,
            latency_s=time.perf_counter() - self._started,
        )
        return FinishedCall(call=call)


def make_chat_key(request: ChatRequest) -> bytes:
    """Return what tells the prompts of an engine without token ids apart."""
    return repr(request.messages).encode("utf-8", "surrogatepass")


def read_answer(response: Mapping[str, Any]) -> Answer:
    """Read the first choice of a chat completion; raises ApiError when it has none."""
    try:
        choice = response["choices"][0]
        read = normalise([{**choice["message"], "role": "assistant"}])[0]
    except (KeyError, IndexError, TypeError, ApiError) as error:
        raise ApiError(503, f"The remote API's answer has no readable choice: {error!r}", code="engine_error") from error
    reply = {**read, "content": read["content"] or (None if read.get("tool_calls") else "")}
    reason = "length" if choice.get("finish_reason") == "length" else "stop"
    counted = response.get("usage") or {}
    return Answer(
        reply=reply,
        finish_reason="tool_calls" if reply.get("tool_calls") else reason,
        prompt_tokens=int(counted.get("prompt_tokens") or 0),
        completion_tokens=int(counted.get("completion_tokens") or 0),
    )
