"""The engines that verl placed, as one of our engines: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from attrs import frozen

from astuner.contract.protocols import EngineTraits
from astuner.contract.schema import Capabilities, Chunk, FinishReason, Request
from astuner.shared.busy_time import BusyTime

SEEDS = 2**63
"""vLLM stores a seed in 64 signed bits."""


class VerlEngine:
    """Asks verl's client; the calls of a session go to one server, which keeps its prefix."""

    traits = EngineTraits(measures_busy_time=True, gives_access=True)

    def __init__(self, client: Any, *, max_model_len: int, seeds: bool, version: int, serve: Callable[[int], None]) -> None:
        """Take a client of running engines, whether they support seeds, their weights' version, and what updates them."""
        self._client, self._seeds, self._serve = client, seeds, serve
        self._version = version
        self._busy = BusyTime()
        self.capabilities = Capabilities(weight_updates=True, max_model_len=max_model_len)

    def give_access(self) -> VerlAccess:
        """Let workers ask verl's servers, whose handles any process of the cluster can use."""
        return VerlAccess(
            client=self._client, max_model_len=self.capabilities.max_model_len or 0, seeds=self._seeds, version=self._version
        )

    @property
    def busy_s(self) -> float:
        """The seconds so far in which at least one request was under way."""
        return self._busy.seconds

    async def start(self) -> None:
        """Nothing to do: they are running."""

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the whole answer at once: verl does not stream."""
        sampling = request.sampling
        params = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "max_tokens": sampling.max_tokens,
            "stop_token_ids": list(sampling.stop_token_ids),
            "logprobs": True,
        }
        if self._seeds:
            params["seed"] = sampling.seed % SEEDS
        with self._busy.count():
            found = await self._client.generate(
                request_id=request.session, prompt_ids=list(request.prompt_ids), sampling_params=params
            )
        ids = list(found.token_ids)
        version = found.extra_fields.get("global_steps")
        yield Chunk(
            ids=ids,
            logprobs=list(found.log_probs or ()),
            weight_version=self._version if version is None else version,
            finish_reason=_finish_reason(found.stop_reason, ids, request),
        )

    async def release(self, session: str) -> None:
        """Nothing to do: servers evict sessions."""

    async def update_weights(self, ref: Any, version: int) -> None:
        """Let the trainer hand over its weights. Nothing is generated meanwhile."""
        self._serve(version)
        self._version = version

    async def pause(self) -> None:
        """Nothing is generated while weights change: the loop waits for the episodes first."""

    async def resume(self) -> None:
        """Nothing to do: `pause` stops nothing."""

    async def close(self) -> None:
        """Nothing to do: they end with the cluster."""


@frozen(kw_only=True)
class VerlAccess:
    """The way of a worker to verl's servers."""

    client: Any
    max_model_len: int
    seeds: bool
    version: int
    same_machine: bool = False

    def open(self) -> VerlEngine:
        """Make an engine over the same servers."""
        return VerlEngine(
            self.client, max_model_len=self.max_model_len, seeds=self.seeds, version=self.version, serve=_refuse_weights
        )


def _refuse_weights(version: int) -> None:
    raise RuntimeError(f"the weights of version {version} are handed over by the run's own process")


def _finish_reason(said: str | None, ids: list[int], request: Request) -> FinishReason:
    if said in ("abort", "aborted"):
        return "abort"
    if ids and ids[-1] in request.sampling.stop_token_ids:
        return "stop"
    return "length" if len(ids) >= request.sampling.max_tokens else "stop"
