"""The engine of the backbone: samples on the server, from the weights of the last step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner_tinker.probe import HAIR
from astuner_tinker.service import describe

if TYPE_CHECKING:
    from astuner_tinker.probe import ServerFacts
    from astuner_tinker.service import Service
    from astuner_tinker.spending import Ledger

Served = Mapping[str, tuple[Any, int]]
"""A sampling client and the version of its weights, by target tag; `""` for all other calls."""

SEEDS = 2**31
"""Seeds of a server are below this."""


class TinkerEngine:
    """Asks for one answer at a time; what is under way keeps the weights that it began with, where the server freezes them."""

    def __init__(self, served: Served, service: Service, facts: ServerFacts, ledger: Ledger, max_model_len: int) -> None:
        """Serve nothing before `start`."""
        self._served, self._service, self._facts, self._ledger = dict(served), service, facts, ledger
        self._places: asyncio.Semaphore | None = None
        self._open = asyncio.Event()
        self.capabilities = Capabilities(weight_updates=True, several_models=True, max_model_len=max_model_len)

    async def start(self) -> None:
        """Serve in the running event loop."""
        self._places = asyncio.Semaphore(self._service.options.max_in_flight)
        self._open.set()

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the whole answer. Closing the iterator waits no longer; the server may go on, and bill it."""
        from tinker import types

        if self._places is None:
            raise RuntimeError("the engine is not running: await engine.start() comes first")
        sampling = request.sampling
        greedy = self._facts.greedy_at_one and sampling.temperature == 1 and sampling.top_p == 1
        params = types.SamplingParams(
            max_tokens=sampling.max_tokens,
            seed=sampling.seed % SEEDS,
            temperature=HAIR if greedy else sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k if sampling.top_k > 0 or not sampling.temperature else self._facts.whole_top_k,
            stop=list(sampling.stop_token_ids) or None,
        )
        prompt = types.ModelInput.from_ints(list(request.prompt_ids))
        await self._open.wait()
        async with self._places:
            client, version = self._served.get(request.target_tag) or self._served[""]
            try:
                answer = await client.sample_async(prompt=prompt, num_samples=1, sampling_params=params)
            except Exception as error:
                raise ConnectionError(f"{self._service.describe()}: no answer: {describe(error)}") from error
        found = answer.sequences[0]
        ids, logprobs, reason = list(found.tokens), list(found.logprobs), str(found.stop_reason)
        self._ledger.add(prefill=len(request.prompt_ids), sample=len(ids))
        ends = [place for place, token in enumerate(ids) if token in sampling.stop_token_ids]
        if ends:
            ids, logprobs, reason = ids[: ends[0] + 1], logprobs[: ends[0] + 1], "stop"
        yield Chunk(ids=ids, logprobs=logprobs, weight_version=version, finish_reason="stop" if reason == "stop" else "length")

    async def release(self, session: str) -> None:
        """Nothing is kept for a session."""

    async def update_weights(self, ref: Served, version: int) -> None:
        """Sample from newer weights from now on."""
        self._served = dict(ref)

    async def pause(self) -> None:
        """Begin no new request until `resume`."""
        self._open.clear()

    async def resume(self) -> None:
        """Begin requests again."""
        self._open.set()

    async def close(self) -> None:
        """Nothing to free: the server keeps what it keeps."""
