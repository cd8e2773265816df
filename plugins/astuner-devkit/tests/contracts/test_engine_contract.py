"""Each rule of the engines' contract is broken by an engine that does one thing wrong; a hanging one fails, and hangs nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.settings.config.model import Config, Model
from astuner_devkit.contracts import Contract, list_rules
from astuner_devkit.contracts.engine import EngineContract
from astuner_devkit.project import write_tokenizer

PLACES = 2


class Babbler:
    """An engine that keeps every rule: it says random ids, a function of the request alone, a few requests at a time."""

    capabilities = Capabilities(reproducible=True, weight_updates=True)

    def __init__(self) -> None:
        self.version = 0
        self.running, self.closed = asyncio.Event(), asyncio.Event()
        self.running.set()
        self.places = asyncio.Semaphore(PLACES)

    async def start(self) -> None: ...

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        async with self.places:
            await self.running.wait()
            rng = random.Random(f"{list(request.prompt_ids)}{0 if request.sampling.temperature == 0 else request.sampling.seed}")
            for place in range(1, request.sampling.max_tokens + 1):
                await asyncio.sleep(0)
                number = rng.randrange(50)
                stops = number in request.sampling.stop_token_ids
                reason = "stop" if stops else "length" if place == request.sampling.max_tokens else None
                if self.closed.is_set():
                    reason = "abort"
                yield self.chunk(number, reason)
                if reason is not None:
                    return

    def chunk(self, number: int, reason: Any) -> Chunk:
        return Chunk(ids=[number], logprobs=[-rng_logprob(number)], weight_version=self.version, finish_reason=reason)

    async def release(self, session: str) -> None: ...

    async def update_weights(self, ref: Any, version: int) -> None:
        self.version = version

    async def pause(self) -> None:
        self.running.clear()

    async def resume(self) -> None:
        self.running.set()

    async def close(self) -> None:
        self.closed.set()


def rng_logprob(number: int) -> float:
    return 0.01 * number


class Rewriting(Babbler):
    """Changes each chunk on its way out."""

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        async for chunk in super().generate(request):
            yield self.rewritten(chunk, request)

    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        raise NotImplementedError


class AwaitedGenerate(Babbler):
    async def generate(self, request: Request) -> Any:  # type: ignore[override]
        return super().generate(request)


class SyncPause(Babbler):
    def pause(self) -> None:  # type: ignore[override]
        self.running.clear()


class ForgetsTheVersion(Babbler):
    async def update_weights(self, ref: Any) -> None:  # type: ignore[override]
        ...


class NeverCloses(Babbler):
    close: Any = None


class MethodOfCapabilities(Babbler):
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities()


class DictOfCapabilities(Babbler):
    capabilities: Any = property(lambda self: {"token_ids": True})


class NoCapabilities(Babbler):
    capabilities: Any = property(lambda self: self.unknown)


class SaysNothing(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, ids=[], logprobs=[])


class FloatIds(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, ids=[float(number) for number in chunk.ids])


class StrangeIds(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, ids=[number + 50 for number in chunk.ids])


class NoLogprobs(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, logprobs=[])


class Probabilities(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, logprobs=[0.5 for _ in chunk.logprobs])


class ArrayLogprobs(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, logprobs=np.asarray(chunk.logprobs, np.float32))


class OneTooMany(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, ids=[*chunk.ids, 2], logprobs=[*chunk.logprobs, -0.1]) if chunk.finish_reason == "length" else chunk


class NeverSaysHow(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, finish_reason=None)


class EndsWithoutAChunk(Babbler):
    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        for chunk in ():
            yield chunk


class SaysDone(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return chunk if chunk.finish_reason is None else evolve(chunk, finish_reason="done")


class SaysLengthAlways(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return chunk if chunk.finish_reason is None else evolve(chunk, finish_reason="length")


class SaysHowEachTime(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, finish_reason="stop")


class DropsTheStopToken(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, ids=[], logprobs=[]) if chunk.finish_reason == "stop" else chunk


class IgnoresStopTokens(Babbler):
    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        return super().generate(evolve(request, sampling=evolve(request.sampling, stop_token_ids=())))


class KeepsPlaces(Babbler):
    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        await self.places.acquire()
        yield self.chunk(1, None)
        for _ in range(request.sampling.max_tokens - 2):
            yield self.chunk(1, None)
        yield self.chunk(1, "length")
        self.places.release()


class Iterator:
    """What `generate` returns, without a way to close it."""

    def __init__(self, stream: AsyncIterator[Chunk]) -> None:
        self.stream = stream

    def __aiter__(self) -> Iterator:
        return self

    async def __anext__(self) -> Chunk:
        return await anext(self.stream)


class CannotBeClosed(Babbler):
    def generate(self, request: Request) -> Any:
        return Iterator(super().generate(request))


class MixesAnswers(Babbler):
    latest: ClassVar[Any] = None

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        type(self).latest = request
        return self.late(request)

    async def late(self, request: Request) -> AsyncIterator[Chunk]:
        await asyncio.sleep(0)
        async for chunk in super().generate(evolve(request, sampling=self.latest.sampling)):
            yield chunk


class DependsOnCompany(Babbler):
    asked = 0

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        self.asked += 1
        return super().generate(evolve(request, sampling=evolve(request.sampling, seed=self.asked)))


class ReportsVersionZero(Rewriting):
    def rewritten(self, chunk: Chunk, request: Request) -> Chunk:
        return evolve(chunk, weight_version=0)


class IgnoresPauses(Babbler):
    async def pause(self) -> None: ...


class StaysPaused(Babbler):
    async def resume(self) -> None: ...


class KnowsAllSessions(Babbler):
    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Any] = {}

    async def release(self, session: str) -> None:
        del self.sessions[session]


class HangsWhenReleased(Babbler):
    async def release(self, session: str) -> None:
        await asyncio.Event().wait()


class HangsWhenClosed(Babbler):
    async def close(self) -> None:
        await asyncio.Event().wait()


class LeavesReaders(Babbler):
    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        yield self.chunk(1, None)
        await asyncio.Event().wait()


class NeverStarts(Babbler):
    async def start(self) -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if self.closed.is_set():
                    raise
                self.closed.set()


BAD = [
    ("test_it_has_the_methods_of_an_engine", AwaitedGenerate, "is not awaited"),
    ("test_it_has_the_methods_of_an_engine", SyncPause, "`pause` is awaited, and so must be async"),
    (
        "test_it_has_the_methods_of_an_engine",
        ForgetsTheVersion,
        "core calls update_weights(ref, version), but",
    ),
    ("test_it_has_the_methods_of_an_engine", NeverCloses, "has no method `close`"),
    ("test_it_has_the_methods_of_an_engine", MethodOfCapabilities, "make it a property"),
    ("test_it_says_what_it_can_do", DictOfCapabilities, "return a Capabilities"),
    ("test_it_says_what_it_can_do", NoCapabilities, "has no `capabilities`"),
    ("test_ids_come_out", SaysNothing, "no id at all"),
    ("test_ids_come_out", FloatIds, "ids are plain ints"),
    ("test_ids_come_out", StrangeIds, "is not in the vocabulary of 50"),
    ("test_ids_come_out", NeverStarts, "start() did not end within 0.5 s"),
    ("test_each_id_has_its_logprob", NoLogprobs, "a chunk has 1 ids and 0 logprobs"),
    ("test_each_id_has_its_logprob", ArrayLogprobs, "logprobs are floats"),
    ("test_each_id_has_its_logprob", Probabilities, "a logprob is 0.5"),
    ("test_no_more_than_max_tokens_come", OneTooMany, "2 ids came for max_tokens=1"),
    ("test_the_last_chunk_says_how_it_ended", EndsWithoutAChunk, "ended without a chunk"),
    ("test_the_last_chunk_says_how_it_ended", SaysDone, "finish_reason is 'done'"),
    ("test_the_last_chunk_says_how_it_ended", NeverSaysHow, "finish_reason is None"),
    ("test_the_last_chunk_says_how_it_ended", SaysHowEachTime, "only the last has one"),
    ("test_a_cut_answer_ends_with_length", SaysHowEachTime, "finish_reason is 'stop'; say 'length'"),
    ("test_a_stop_token_ends_the_call_and_belongs_to_it", SaysLengthAlways, "its finish_reason is 'length'"),
    ("test_a_stop_token_ends_the_call_and_belongs_to_it", DropsTheStopToken, "is missing in the answer"),
    ("test_a_stop_token_ends_the_call_and_belongs_to_it", IgnoresStopTokens, "end the call there"),
    ("test_closing_the_iterator_frees_the_engine", KeepsPlaces, "did not end"),
    ("test_closing_the_iterator_frees_the_engine", CannotBeClosed, "give it aclose()"),
    ("test_requests_at_once_get_answers_of_their_own", SaysDone, "one of five requests at once ended with 'done'"),
    ("test_requests_at_once_get_answers_of_their_own", MixesAnswers, "keep the answers apart"),
    ("test_a_request_does_not_depend_on_company", DependsOnCompany, "set Capabilities(reproducible=False)"),
    ("test_new_weights_are_served_under_their_version", ReportsVersionZero, "carry the weight_version [0]"),
    ("test_a_pause_holds_new_requests_until_resume", IgnoresPauses, "while it was paused"),
    ("test_a_pause_holds_new_requests_until_resume", StaysPaused, "after resume() did not end"),
    ("test_releasing_an_unknown_session_is_harmless", KnowsAllSessions, "raised KeyError('never-seen')"),
    ("test_releasing_an_unknown_session_is_harmless", HangsWhenReleased, "raised TimeoutError"),
    ("test_closing_ends_what_is_under_way", HangsWhenClosed, "close() did not end"),
    ("test_closing_ends_what_is_under_way", LeavesReaders, "left the reader of a request waiting"),
]


@pytest.mark.parametrize(("rule", "bad", "words"), BAD, ids=[f"{bad.__name__}-{rule}" for rule, bad, _ in BAD])
def test_a_bad_engine_breaks_its_rule(outcome_of: Any, rule: str, bad: type, words: str):
    author = {"vocab_size": 50, "timeout_s": 0.5, "new_weights": lambda self: "new"}
    outcome = outcome_of(EngineContract, rule, component=bad, **author)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome.message


def test_every_rule_is_broken_by_a_bad_engine():
    assert {rule for rule, *_ in BAD} == set(list_rules(EngineContract)) - set(list_rules(Contract))


class TestBabbler(EngineContract):
    component = Babbler
    vocab_size = 50

    def new_weights(self) -> Any:
        return "new"


class TestScripted(EngineContract):
    component = "astuner.episodes.builtin.engines.scripted_engine:ScriptedEngine"
    options: ClassVar[dict[str, Any]] = {"replies": ["One and two and three and four make ten."]}
    vocab_size = 420

    def prepare(self, directory: Path) -> None:
        write_tokenizer(directory / "model")

    def run_info(self, directory: Path) -> RunInfo:
        return evolve(super().run_info(directory), config=Config(model=Model(path=str(directory / "model"))))

    def prompt_ids(self) -> Sequence[int]:
        return (20, 21, 22, 23)


class TestOpenAI(EngineContract):
    component = "astuner.episodes.builtin.engines.openai_engine:OpenAIEngine"
    options: ClassVar[dict[str, Any]] = {"base_url": "http://127.0.0.1:9/v1", "model": "any"}


def test_rules_about_ids_are_skipped_for_a_chat_only_api(outcome_of: Any):
    chat_only = {"component": TestOpenAI.component, "options": TestOpenAI.options}
    outcome = outcome_of(EngineContract, "test_ids_come_out", **chat_only)
    assert (outcome.status, "token_ids is False" in outcome.message) == ("skipped", True)


def test_new_weights_are_asked_for(outcome_of: Any):
    outcome = outcome_of(EngineContract, "test_new_weights_are_served_under_their_version", component=Babbler)
    assert (outcome.status, "override new_weights()" in outcome.message) == ("skipped", True)
