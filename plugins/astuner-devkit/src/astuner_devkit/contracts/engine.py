"""The contract of engines: token ids in, token ids out, each with its log-probability, and nothing that hangs."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

from attrs import frozen

from astuner.contract.protocols import Engine
from astuner.contract.schema import Capabilities, Chunk, Request, Sampling
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.shape import assert_method
from astuner_devkit.contracts.waiting import run_bounded, wait_within

T = TypeVar("T")

TOKENS = 8
"""Requested by rules that need an answer of some length."""
LONG = 4096
"""Requested if an answer must still be running; less if the engine's context is shorter."""
PAUSE_S = 0.2
"""How long a paused engine is watched."""
ENDS = ("stop", "length", "abort")

_AWAITED = {"start": (), "release": ("session",), "update_weights": ("ref", "version"), "pause": (), "resume": (), "close": ()}
"""The arguments of each method that is awaited."""


@frozen(kw_only=True)
class Answer:
    """An engine's answer to one request."""

    chunks: tuple[Chunk, ...]

    @property
    def ids(self) -> list[Any]:
        """All ids."""
        return [number for chunk in self.chunks for number in chunk.ids]

    @property
    def logprobs(self) -> list[Any]:
        """All log-probabilities."""
        return [logprob for chunk in self.chunks for logprob in chunk.logprobs]

    @property
    def reason(self) -> str | None:
        """How it ended."""
        return self.chunks[-1].finish_reason if self.chunks else None


class EngineContract(Contract):
    """Rules for engines. Those about token ids do not apply to chat-only APIs (`capabilities.token_ids` is False)."""

    kind: ClassVar[str] = "engine"
    vocab_size: ClassVar[int | None] = None
    """Ids are below it, if it is set."""
    timeout_s: ClassVar[float] = 60.0
    """Limit for each single wait: starting, an answer, closing."""
    _requests_made: int = 0

    def prompt_ids(self) -> Sequence[int]:
        """Return any prompt of valid ids."""
        return (1, 2, 3)

    def new_weights(self) -> Any:
        """Return what `update_weights` takes, as the backbone would hand it over."""
        raise SkipTest("new weights are needed: override new_weights()")

    @self_contained
    def test_it_has_the_methods_of_an_engine(self) -> None:
        """An engine has the methods of `astuner.contract.protocols.Engine`, and its arguments; `capabilities` is no method."""
        target = self.target()
        assert not inspect.isfunction(inspect.getattr_static(target, "capabilities", None)), (
            f"{self._blame}: `capabilities` is a method; make it a property"
        )
        for name, takes in _AWAITED.items():
            assert_method(target, name, takes, blame=self._blame, is_async=True)
        assert_method(target, "generate", ["request"], blame=self._blame, is_async=None)
        assert not inspect.iscoroutinefunction(target.generate), (
            f"{self._blame}: `generate` returns an async iterator and is not awaited: use `yield` in it, or write `def`"
        )

    def test_it_says_what_it_can_do(self, tmp_path: Path) -> None:
        """`capabilities` is a `Capabilities`, before and after `start`: the gateway asks before anything is sent."""

        async def play(engine: Engine) -> list[Any]:
            return [engine.capabilities]

        engine: Any = self.make(tmp_path)
        assert hasattr(engine, "capabilities"), f"{self._blame}: has no `capabilities`; write a property of this name"
        for found in [engine.capabilities, *self._serve(tmp_path, play)]:
            assert isinstance(found, Capabilities), f"{self._blame}: capabilities is {found!r:.200}; return a Capabilities"

    def test_ids_come_out(self, tmp_path: Path) -> None:
        """A request for tokens is answered with at least one id: plain ints, of the vocabulary."""
        answer = self._answer(tmp_path, max_tokens=TOKENS)
        assert answer.ids, f"{self._blame}: answered with no id at all to {list(self.prompt_ids())}"
        for number in answer.ids:
            assert type(number) is int, f"{self._blame}: ids are plain ints, got {number!r} ({type(number).__name__})"
            inside = number >= 0 and (self.vocab_size is None or number < self.vocab_size)
            assert inside, f"{self._blame}: id {number} is not in the vocabulary of {self.vocab_size or 'non-negative ids'}"

    def test_each_id_has_its_logprob(self, tmp_path: Path) -> None:
        """Each chunk has one log-probability per id: natural, of the sampling distribution, so finite and at most 0."""
        answer = self._answer(tmp_path, needs="logprobs", max_tokens=TOKENS)
        for chunk in answer.chunks:
            ids, logprobs = len(chunk.ids), len(chunk.logprobs)
            assert ids == logprobs, f"{self._blame}: a chunk has {ids} ids and {logprobs} logprobs; give one for each"
        for value in answer.logprobs:
            assert isinstance(value, float), f"{self._blame}: logprobs are floats, got {value!r} ({type(value).__name__})"
            right = math.isfinite(value) and value <= 0
            assert right, f"{self._blame}: a logprob is {value}; a log-probability is finite and at most 0"

    def test_no_more_than_max_tokens_come(self, tmp_path: Path) -> None:
        """An answer has at most `max_tokens` ids."""
        for limit in (1, 3, TOKENS):
            count = len(self._answer(tmp_path, max_tokens=limit).ids)
            assert count <= limit, f"{self._blame}: {count} ids came for max_tokens={limit}; the gateway has room for no more"

    def test_the_last_chunk_says_how_it_ended(self, tmp_path: Path) -> None:
        """Exactly one chunk, the last, has a `finish_reason`: `stop`, `length` or `abort`."""
        answer = self._answer(tmp_path, max_tokens=TOKENS)
        reasons = [chunk.finish_reason for chunk in answer.chunks]
        assert reasons, f"{self._blame}: generate() ended without a chunk; the last chunk says how it ended, even with no ids"
        assert reasons[-1] in ENDS, f"{self._blame}: the last chunk's finish_reason is {reasons[-1]!r}; it is one of {ENDS}"
        early = [reason for reason in reasons[:-1] if reason is not None]
        assert not early, f"{self._blame}: a chunk before the last has the finish_reason {early[0]!r}; only the last has one"

    def test_a_cut_answer_ends_with_length(self, tmp_path: Path) -> None:
        """An answer that `max_tokens` cut ends with `length`, and no end-of-text token is added: it was not sampled."""
        answer = self._answer(tmp_path, max_tokens=1)
        assert answer.reason == "length", (
            f"{self._blame}: max_tokens=1 cut the answer after a token that does not stop it, but finish_reason is "
            f"{answer.reason!r}; say 'length'"
        )

    def test_a_stop_token_ends_the_call_and_belongs_to_it(self, tmp_path: Path) -> None:
        """A sampled id of `stop_token_ids` ends the call with `stop`, and is the last id of the answer."""
        first = self._answer(tmp_path, max_tokens=TOKENS, temperature=0.0).ids[:1]
        answer = self._answer(tmp_path, max_tokens=TOKENS, temperature=0.0, stop_token_ids=tuple(first))
        assert answer.ids, f"{self._blame}: the stop token {first} is missing in the answer; it was sampled, so it belongs to it"
        places = [place for place, number in enumerate(answer.ids) if number in first]
        assert places == [len(answer.ids) - 1], (
            f"{self._blame}: the answer {answer.ids} does not end with the stop token {first}; end the call there"
        )
        assert answer.reason == "stop", (
            f"{self._blame}: a stop token ended the answer, and its finish_reason is {answer.reason!r}"
        )

    def test_closing_the_iterator_frees_the_engine(self, tmp_path: Path) -> None:
        """Closing the iterator of `generate`, or cancelling its reader, ends the request; further ones are served."""

        async def play(engine: Engine) -> None:
            self._require(engine)
            for number in range(4):
                stream = engine.generate(self._request(engine, max_tokens=LONG))
                aclose = getattr(stream, "aclose", None)
                assert aclose is not None, (
                    f"{self._blame}: what generate() returns cannot be closed; make it an async generator, or give it aclose()"
                )
                if number % 2:
                    reading = asyncio.ensure_future(anext(stream, None))
                    await asyncio.sleep(0)
                    reading.cancel()
                    await asyncio.wait({reading}, timeout=self.timeout_s)
                else:
                    await wait_within(self.timeout_s, f"{self._blame}: the first chunk", anext(stream, None))
                await wait_within(self.timeout_s, f"{self._blame}: closing the iterator of generate()", aclose())
            await self._ask(engine, "a request after four that were cancelled", max_tokens=TOKENS)

        self._serve(tmp_path, play)

    def test_requests_at_once_get_answers_of_their_own(self, tmp_path: Path) -> None:
        """Several requests at the same time are all answered, each within its own `max_tokens`."""
        limits = (1, 2, 3, 5, 8)

        async def play(engine: Engine) -> Sequence[Answer]:
            self._require(engine)
            return await asyncio.gather(*(self._ask(engine, "one of five requests", max_tokens=limit) for limit in limits))

        for limit, answer in zip(limits, self._serve(tmp_path, play), strict=True):
            ids = len(answer.ids)
            own = ids == limit if answer.reason == "length" else ids <= limit
            assert own, (
                f"{self._blame}: of five requests at once, the one for max_tokens={limit} got {ids} ids and {answer.reason!r}; "
                "keep the answers apart"
            )
            assert answer.reason in ENDS, f"{self._blame}: one of five requests at once ended with {answer.reason!r}"

    def test_a_request_does_not_depend_on_company(self, tmp_path: Path) -> None:
        """Where `capabilities.reproducible` says so, the same request gives the same ids and bits, alone and among others."""

        async def play(engine: Engine) -> Sequence[Answer]:
            self._require(engine, "reproducible")
            alone = await self._ask(engine, "a request", max_tokens=TOKENS, seed=11)
            others = (self._ask(engine, "a request in company", max_tokens=TOKENS, seed=seed) for seed in (11, 12, 13))
            return [alone, *(await asyncio.gather(*others))]

        alone, again, *_ = self._serve(tmp_path, play)
        assert (again.ids, again.logprobs) == (alone.ids, alone.logprobs), (
            f"{self._blame}: claims to be reproducible, but gave {again.ids} in company and {alone.ids} alone "
            f"(logprobs {again.logprobs}, {alone.logprobs}); set Capabilities(reproducible=False)"
        )

    def test_new_weights_are_served_under_their_version(self, tmp_path: Path) -> None:
        """After `update_weights(ref, version)` each chunk of a new request carries that `weight_version`."""

        async def play(engine: Engine) -> Answer:
            self._require(engine, "weight_updates")
            ref = self.new_weights()
            await wait_within(self.timeout_s, f"{self._blame}: update_weights()", engine.update_weights(ref, 7))
            return await self._ask(engine, "a request after new weights", max_tokens=TOKENS)

        versions = {chunk.weight_version for chunk in self._serve(tmp_path, play).chunks}
        assert versions == {7}, (
            f"{self._blame}: after update_weights(…, 7) chunks carry the weight_version {sorted(versions)}; report the one given"
        )

    def test_a_pause_holds_new_requests_until_resume(self, tmp_path: Path) -> None:
        """After `pause` no new request starts; after `resume` those that waited are served."""

        async def play(engine: Engine) -> bool:
            self._require(engine)
            await wait_within(self.timeout_s, f"{self._blame}: pause()", engine.pause())
            task = asyncio.ensure_future(self._ask(engine, "a request held by a pause, after resume()", max_tokens=1))
            await asyncio.sleep(PAUSE_S)
            served = task.done()
            await wait_within(self.timeout_s, f"{self._blame}: resume()", engine.resume())
            await task
            return served

        assert not self._serve(tmp_path, play), (
            f"{self._blame}: served a request while it was paused; weights are exchanged meanwhile, so hold new requests back"
        )

    def test_releasing_an_unknown_session_is_harmless(self, tmp_path: Path) -> None:
        """`release` of a session that the engine does not know does nothing: an episode may end before its first token."""

        async def play(engine: Engine) -> None:
            releasing = asyncio.ensure_future(engine.release("never-seen"))
            await asyncio.wait({releasing}, timeout=self.timeout_s)
            error = releasing.exception() if releasing.done() else TimeoutError(f"{self.timeout_s:g} s")
            assert error is None, f"{self._blame}: release() of an unknown session raised {error!r}; ignore the session"
            if engine.capabilities.token_ids:
                await self._ask(engine, "a request after release()", max_tokens=1)

        self._serve(tmp_path, play)

    def test_closing_ends_what_is_under_way(self, tmp_path: Path) -> None:
        """`close` ends even with a request under way, and the reader of that request is not left waiting."""

        async def play() -> None:
            async with self._start(tmp_path) as engine:
                if not engine.capabilities.token_ids:
                    return
                stream = engine.generate(self._request(engine, max_tokens=LONG))
                await wait_within(self.timeout_s, f"{self._blame}: the first chunk", anext(stream, None))
                rest = asyncio.ensure_future(_collect(stream))
                await asyncio.sleep(0)
            done, _ = await asyncio.wait({rest}, timeout=self.timeout_s)
            assert done, f"{self._blame}: close() left the reader of a request waiting; end its chunks with 'abort'"
            rest.exception()  # An error also ends it.

        run_bounded(play)

    @asynccontextmanager
    async def _start(self, directory: Path) -> AsyncIterator[Engine]:
        engine: Engine = self.make(directory)
        await wait_within(self.timeout_s, f"{self._blame}: start()", engine.start())
        try:
            yield engine
        finally:
            await wait_within(self.timeout_s, f"{self._blame}: close()", engine.close())

    def _serve(self, directory: Path, play: Callable[[Engine], Awaitable[T]]) -> T:
        """Start an engine, play with it, and close it."""

        async def run() -> T:
            async with self._start(directory) as engine:
                return await play(engine)

        return run_bounded(run)

    def _answer(self, directory: Path, *, needs: str = "token_ids", **sampling: Any) -> Answer:
        """Ask a fresh engine one thing."""

        async def play(engine: Engine) -> Answer:
            self._require(engine, needs)
            return await self._ask(engine, "an answer", **sampling)

        return self._serve(directory, play)

    def _require(self, engine: Engine, needs: str = "token_ids") -> None:
        for capability in ("token_ids", needs):
            if not getattr(engine.capabilities, capability):
                raise SkipTest(f"{self._blame}: capabilities.{capability} is False")

    async def _ask(self, engine: Engine, what: str, **sampling: Any) -> Answer:
        stream = engine.generate(self._request(engine, **sampling))
        return Answer(chunks=tuple(await wait_within(self.timeout_s, f"{self._blame}: {what}", _collect(stream))))

    def _request(self, engine: Engine, max_tokens: int, **sampling: Any) -> Request:
        """Return a request in its own session."""
        prompt = list(self.prompt_ids())
        room = (engine.capabilities.max_model_len or max_tokens + len(prompt)) - len(prompt)
        self._requests_made = self._requests_made + 1
        return Request(
            id=f"contract/{self._requests_made}",
            session=f"contract/{self._requests_made}",
            prompt_ids=prompt,
            sampling=Sampling(max_tokens=min(max_tokens, room), **{"seed": 5, **sampling}),
        )


async def _collect(stream: AsyncIterator[Chunk]) -> list[Chunk]:
    return [chunk async for chunk in stream]
