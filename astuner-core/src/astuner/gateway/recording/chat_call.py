"""Calls through a chat-only engine without token ids: served and recorded, never trained."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from attrs import define, field, frozen

from astuner.gateway.recording.choice_events import Answer, Delta, Done
from astuner.gateway.recording.messages import normalise
from astuner.gateway.recording.model_call import FinishedCall
from astuner.gateway.recording.request import ChatRequest
from astuner.rendering.errors import ApiError
from astuner.schema import Call

PASSED_ON = ("messages", "tools", "tool_choice", "response_format", "parallel_tool_calls", "stop", "reasoning_effort")


class ChatEngine(Protocol):
    """The additional method of an engine without token ids."""

    async def chat(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer one request in OpenAI's chat form, with one choice; raises ApiError to refuse it."""
        ...


@frozen(kw_only=True, eq=False)
class ChatPlan:
    """The settled parameters of a chat-only call before it begins."""

    index: int
    choice: int
    agent: str
    target_tag: str
    request: ChatRequest
    temperature: float
    top_p: float
    max_tokens: int
    seed: int
    untrained: str
    timeout_s: float | None

    @property
    def body(self) -> dict[str, Any]:
        """The request for the engine."""
        wanted = {name: self.request.body[name] for name in PASSED_ON if self.request.body.get(name) is not None}
        settled = {"temperature": self.temperature, "top_p": self.top_p, "max_tokens": self.max_tokens}
        # Remote APIs take signed 64-bit seeds.
        return {**wanted, **settled, "seed": self.seed >> 1}


@define(eq=False)
class ChatCall:
    """Runs one plan."""

    plan: ChatPlan
    engine: ChatEngine
    emit: Callable[[Delta | Done], None]
    on_finished: Callable[[FinishedCall], None]
    _started: float = field(factory=time.perf_counter, init=False)
    _over: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Call the engine, record, and pass the answer on, in one piece if it is streamed."""
        plan = self.plan
        try:
            async with asyncio.timeout(plan.timeout_s) as limit:
                response = await self.engine.chat(plan.body)
            answer = read_answer(response)
        except TimeoutError as error:
            text = f"No answer within {plan.timeout_s:g} s." if limit.expired() else f"The engine failed: {error!r}"
            self._end({}, "abort", "timeout", ApiError(504, text, code="timeout"))
        except asyncio.CancelledError:
            self.abandon()
            raise
        except ApiError as error:
            self._end({}, "abort", error.code or "engine_error", error)
        except Exception as error:  # noqa: BLE001 - an engine is extension code; its failure ends this call only
            self._end({}, "abort", "engine_error", ApiError(503, f"The engine failed: {error!r}", code="engine_error"))
        else:
            if plan.request.stream:
                self._stream(answer.reply)
            self._end(answer.reply, "length" if answer.finish_reason == "length" else "stop", None, answer)

    def abandon(self) -> None:
        """Record a cancelled call, even one whose task never ran, and notify its waiting client."""
        self._end({}, "abort", "aborted", ApiError(503, "The call was cancelled.", code="aborted", retry=False))

    def _stream(self, reply: Mapping[str, Any]) -> None:
        for key in ("reasoning_content", "content"):
            if reply.get(key):
                self.emit(Delta(self.plan.choice, {key: reply[key]}))
        for number, call in enumerate(reply.get("tool_calls", ())):
            self.emit(Delta(self.plan.choice, {"tool_calls": [{"index": number, **call}]}))

    def _end(self, reply: Mapping[str, Any], reason: str, failure: str | None, result: Answer | ApiError) -> None:
        if self._over:
            return
        self._over = True
        plan = self.plan
        call = Call(
            index=plan.index,
            agent=plan.agent,
            target_tag=plan.target_tag,
            parent=None,
            kept=0,
            prompt_ids=np.empty(0, np.int32),
            output_ids=np.empty(0, np.int32),
            logprobs=np.empty(0, np.float32),
            finish_reason=reason,
            untrained=failure or plan.untrained,
            messages=plan.request.messages,
            reply=reply,
            tools=plan.request.tools,
            temperature=plan.temperature,
            latency_s=time.perf_counter() - self._started,
        )
        self.on_finished(FinishedCall(call=call, usable=0, closed_by=None, malformed=0, dropped=0))
        self.emit(Done(plan.choice, result))


def read_answer(response: Mapping[str, Any]) -> Answer:
    """Read the first choice of a chat completion; raises ApiError when it has none."""
    try:
        choice = response["choices"][0]
        read = normalise([{**choice["message"], "role": "assistant"}])[0]
    except (KeyError, IndexError, TypeError, ApiError) as error:
        raise ApiError(503, f"The remote API's answer has no readable choice: {error!r}", code="engine_error") from error
    reply = {**read, "content": read["content"] or None}
    reason = "length" if choice.get("finish_reason") == "length" else "stop"
    counted = response.get("usage") or {}
    return Answer(
        reply=reply,
        finish_reason="tool_calls" if reply.get("tool_calls") else reason,
        prompt_tokens=int(counted.get("prompt_tokens") or 0),
        completion_tokens=int(counted.get("completion_tokens") or 0),
    )
