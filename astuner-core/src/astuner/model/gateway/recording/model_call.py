"""One running model call: consumes the engine's output, streams to the client, and ends as a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from attrs import define, field, frozen

from astuner.contract.schema import Call, Request, WeightSpan
from astuner.model.gateway.recording.choice_events import Answer, Delta, Done, ReplyBuilder, count_reasoning_tokens
from astuner.model.gateway.recording.running_call import FinishedCall, Plan, RunningCall
from astuner.model.rendering.decoding import StopFinder, TextStream
from astuner.model.rendering.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from astuner.contract.protocols import Engine
    from astuner.contract.schema import Chunk, Message
    from astuner.model.gateway.tree.token_tree import Placement
    from astuner.model.rendering import TemplateRenderer
    from astuner.model.rendering.reply_parser import Piece, ReplyParser


@frozen(kw_only=True, eq=False)
class CallPlan(Plan):
    """The plan of a call that samples token ids."""

    placement: Placement
    request: Request
    """The engine's request."""
    stops: tuple[str, ...]
    fills_context: bool
    """Whether running out of tokens means that the context is full."""
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    wants_logprobs: bool
    tool_call_id: Callable[[int], str]
    """Makes the id of the n-th tool call of the answer."""


@define(eq=False)
class LiveCall(RunningCall[CallPlan]):
    """Runs one plan with an engine of token ids."""

    engine: Engine
    renderer: TemplateRenderer
    parser: ReplyParser
    _ids: list[int] = field(factory=list, init=False)
    _logprobs: list[float] = field(factory=list, init=False)
    _spans: tuple[WeightSpan, ...] = field(default=(), init=False)
    _client_logprobs: list[dict[str, Any]] = field(factory=list, init=False)
    """Log-probabilities in the client's form."""
    _sent: int = field(default=0, init=False)
    """How many of those were streamed."""
    _lengths: list[int] = field(factory=list, init=False)
    """Characters of text after each id, for finding stop strings; -1 inside a character."""
    _length: int = field(default=0, init=False)
    _reason: str = field(default="abort", init=False)
    _closed_by: int | None = field(default=None, init=False)
    _stop_ids: frozenset[int] = field(init=False)
    _reply: ReplyBuilder = field(init=False)
    _text: TextStream = field(init=False)
    _stop: StopFinder = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the parts that need the plan."""
        self._stop_ids = frozenset(self.plan.request.sampling.stop_token_ids)
        self._reply = ReplyBuilder(self.plan.tool_call_id)
        self._text = TextStream(self.renderer.decode)
        self._stop = StopFinder(self.plan.stops)

    async def _generate(self) -> None:
        stream = cast("AsyncGenerator[Chunk, None]", self.engine.generate(self.plan.request))
        async with aclosing(stream):
            async for chunk in stream:
                self._take(chunk)
                if self._reason != "abort" or chunk.finish_reason is not None:
                    break
        if self._reason == "abort":
            raise ApiError(503, "The engine aborted this generation.", code="engine_error")

    def _take(self, chunk: Chunk) -> None:
        ids, logprobs = chunk.ids, chunk.logprobs
        if len(logprobs) != len(ids):
            if self.engine.capabilities.logprobs:
                raise ApiError(503, f"The engine sent {len(ids)} ids and {len(logprobs)} logprobs.", code="engine_error")
            logprobs = [0.0] * len(ids)
        if ids and not self._spans:
            self._spans = _make_single_span(chunk.weight_version)
        elif ids and self._spans[-1].version != chunk.weight_version:
            self._spans += (WeightSpan(start=len(self._ids), version=chunk.weight_version),)
        stop_ids = self._stop_ids
        end = None if stop_ids.isdisjoint(ids) else next(place for place, number in enumerate(ids) if number in stop_ids)
        text_ids = ids if end is None else ids[:end]
        taken = self._read(text_ids) if self.plan.streams or self.plan.stops else len(text_ids)
        if self._stop.found:
            self._reason = "stop"
        elif end is not None:
            taken = end + 1
            self._reason, self._closed_by = "stop", int(ids[end])
        elif chunk.finish_reason is not None:
            self._reason = chunk.finish_reason
        if self.plan.wants_logprobs:
            self._client_logprobs += [self._format_logprob(chunk, place) for place in range(taken)]
        self._ids += ids[:taken]
        self._logprobs += logprobs[:taken]

    def _read(self, ids: Sequence[int]) -> int:
        """Pass ids on as text; return how many of them were used."""
        if not self.plan.stops:
            self._emit_pieces(self.parser.feed(self._text.feed(ids)))
            return len(ids)
        for place, number in enumerate(ids):
            text = self._text.feed((number,))
            self._length += len(text)
            self._lengths.append(-1 if self._text.waits else self._length)
            self._emit_pieces(self.parser.feed(self._stop.feed(text)))
            if self._stop.found:
                return place + 1
        return len(ids)

    def _emit_pieces(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            fields = self._reply.add(piece)
            if self.plan.streams:
                logprobs = self._client_logprobs[self._sent :] if self.plan.wants_logprobs else None
                self._sent = len(self._client_logprobs)
                placement = self.plan.placement
                call = self._reply.calls[-1] if piece.kind == "tool_call" and not piece.open else None
                self.emit(Delta(self.plan.choice, fields, logprobs, len(placement.ids), placement.kept, piece.open, call))

    def _end(self) -> None:
        """Close the text, record the call, notify the client."""
        plan = self.plan
        if self._reason == "length" and plan.fills_context:
            self._reason = "context"
        if plan.streams or plan.stops:
            rest = "" if self._stop.found else self._stop.feed(self._text.finish())
            self._emit_pieces(self.parser.feed(rest + self._stop.finish()))
        else:
            self._emit_pieces(self.parser.feed(self.renderer.decode(self._ids if self._closed_by is None else self._ids[:-1])))
        self._emit_pieces(self.parser.finish())
        self._record()
        reason = "length" if self._reason in ("length", "context") else "stop"
        reply = self._reply.message()
        answer = Answer(
            reply=reply,
            finish_reason="tool_calls" if self._reply.calls and not (reason == "length" and self._reply.is_cut_off) else reason,
            stop_string=self._stop.reached,
            prompt_tokens=len(plan.placement.ids),
            completion_tokens=len(self._ids),
            cached_tokens=plan.placement.kept,
            reasoning_tokens=count_reasoning_tokens(reply, self._ids, self.renderer.decode),
            logprobs=self._client_logprobs[self._sent :] if plan.wants_logprobs else None,
        )
        self.emit(Done(plan.choice, answer))

    def _make_record(self, failure: str | None) -> FinishedCall:
        plan = self.plan
        reply = self._reply.message()
        if self.parser.malformed:
            reply["malformed_tool_call"] = self.parser.malformed
        if self.parser.reasons and self._reason in ("length", "context"):
            reply["cut_reasoning"] = True
        call = Call(
            index=plan.index,
            agent=plan.agent,
            target_tag=plan.target_tag,
            parent=plan.placement.parent,
            kept=plan.placement.kept,
            prompt_ids=plan.placement.prompt_ids,
            output_ids=np.asarray(self._ids, dtype=np.int32),
            logprobs=np.asarray(self._logprobs, dtype=np.float32),
            finish_reason="abort" if failure else self._reason,
            weights=self._spans,
            untrained=plan.untrained or failure,
            messages=plan.messages,
            reply=reply,
            tools=plan.tools,
            temperature=plan.request.sampling.temperature,
            latency_s=time.perf_counter() - self._started,
        )
        usable = 0 if failure or self.parser.dropped else self._count_usable()
        return FinishedCall(
            call=call, usable=usable, closed_by=self._closed_by, malformed=self.parser.malformed, dropped=self.parser.dropped
        )

    def _count_usable(self) -> int:
        if not self._stop.found:
            return len(self._ids)
        # A stop string that begins inside a token cannot be removed from the stream.
        return self._lengths.index(self._stop.passed) + 1 if self._stop.passed in self._lengths else 0

    def _format_logprob(self, chunk: Chunk, place: int) -> dict[str, Any]:
        shown = self._token(chunk.ids[place], chunk.logprobs[place] if place < len(chunk.logprobs) else 0.0)
        others = chunk.top_logprobs[place] if place < len(chunk.top_logprobs) else {}
        return {**shown, "top_logprobs": [self._token(number, value) for number, value in others.items()]}

    def _token(self, number: int, logprob: float) -> dict[str, Any]:
        token = self.renderer.decode((number,))
        return {"token": token, "logprob": logprob, "bytes": None if "\ufffd" in token else list(token.encode())}


@lru_cache(maxsize=8)
def _make_single_span(version: int) -> tuple[WeightSpan, ...]:
    # Nearly every call has one span, so they share it.
    return (WeightSpan(start=0, version=version),)
