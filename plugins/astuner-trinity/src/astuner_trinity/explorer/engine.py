"""Trinity's engines as one of our engines: token ids in, token ids out, through each one's OpenAI-compatible server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import AstunerError, RunFailed
from astuner.contract.protocols import Engine, EngineTraits, RunInfo
from astuner.contract.schema import Capabilities, Chunk, FinishReason, Request
from astuner.shared.busy_time import BusyTime

if TYPE_CHECKING:
    import httpx

SEEDS = 2**63
"""vLLM stores a seed in 64 signed bits."""
DATA = "data:"
DONE = "[DONE]"


class EngineLost(AstunerError):
    """The engine did not answer, or answered wrongly."""


def make_engine(model: Any, run: RunInfo, versions: Versions) -> Engine:
    """Return an engine over one of Trinity's model wrappers.

    Only its actor knows adapters: its server would answer with the bare model.
    """
    rollout = run.config.rollout
    # Trinity sets vLLM's first model runner, which draws the tokens of seeded requests one request after the other.
    most, seeded = rollout.max_model_len, rollout.seed is not None
    if model.enable_lora:
        return ActorEngine(model.model, versions, max_model_len=most, seeded=seeded)
    return ServerEngine(model.api_address, model.model_name, versions, key=model.api_key, max_model_len=most, seeded=seeded)


class Versions:
    """Asks an engine's actor for the version of its weights: the run's step after which they were trained."""

    def __init__(self, actor: Any, steps_before: int = 0) -> None:
        """Take the actor's handle, and the run's step before its stage."""
        self._actor, self._before = actor, steps_before

    async def now(self) -> int:
        """Return the version."""
        return self._before + int(await self._actor.get_model_version.remote())


class _TrinityEngine:
    """Common base: Trinity starts and ends engines, and hands them weights."""

    traits = EngineTraits(measures_busy_time=True)

    def __init__(self, *, max_model_len: int, seeded: bool) -> None:
        self.capabilities = Capabilities(weight_updates=True, max_model_len=max_model_len)
        self._seeded = seeded
        self._busy = BusyTime()

    @property
    def busy_s(self) -> float:
        """The seconds so far in which at least one request was under way."""
        return self._busy.seconds

    async def start(self) -> None:
        """Nothing to do: it is running."""

    async def release(self, session: str) -> None:
        """Nothing to do: engines evict sessions."""

    async def update_weights(self, ref: Any, version: int) -> None:
        """Trinity's synchronizer does it."""

    async def pause(self) -> None:
        """Trinity's synchronizer does it."""

    async def resume(self) -> None:
        """Trinity's synchronizer does it."""

    async def close(self) -> None:
        """Nothing to do: it ends with Trinity."""


class ServerEngine(_TrinityEngine):
    """Streams from `/v1/completions`, with token ids as prompt and answer.

    The server does not report which weights sampled a token. An answer is stamped with those at its start: in the asynchronous
    styles, where weights change during an answer, it may count as older than it is, never as younger.
    """

    def __init__(
        self, address: str, model: str, versions: Versions, *, key: str, max_model_len: int, seeded: bool = False
    ) -> None:
        """Take the server's address, its name for the model, the source of its weights' version, and whether to send seeds."""
        super().__init__(max_model_len=max_model_len, seeded=seeded)
        self._address, self._model, self._versions, self._key = address, model, versions, key
        self._http: httpx.AsyncClient | None = None

    async def start(self) -> None:
        """Open the client; raises `RunFailed` for a server that would answer without the key."""
        import httpx

        # Core's limits bound the time of an answer.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(None, connect=30.0), limits=limits, trust_env=False)
        try:
            stranger = (await self._http.get(f"{self._address}/v1/models")).status_code
        except httpx.HTTPError as error:
            raise EngineLost(f"{self._address}: {type(error).__name__}: {error}") from error
        if stranger != 401:
            raise RunFailed(f"{self._address}: Trinity's vLLM answers {stranger} to a request without the run's key, not 401")
        self._http.headers["authorization"] = f"Bearer {self._key}"

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield tokens as they come; closing the iterator closes the connection, and the server stops."""
        with self._busy.count():
            version = await self._versions.now()
            async with self._post(request) as lines:
                finished = False
                async for event in lines:
                    chunk = _chunk(event, request, version, self._address)
                    if chunk is not None:
                        finished = chunk.finish_reason is not None
                        yield chunk
                if not finished:
                    raise EngineLost(f"{self._address} ended an answer before its end")

    async def close(self) -> None:
        """Close the client."""
        if self._http is not None:
            await self._http.aclose()

    @asynccontextmanager
    async def _post(self, request: Request) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        import httpx

        assert self._http is not None, "start() comes first"
        body = _body(request, self._model, seeded=self._seeded)
        try:
            async with self._http.stream("POST", f"{self._address}/v1/completions", json=body) as response:
                if response.status_code != 200:
                    said = (await response.aread())[:500].decode(errors="replace")
                    raise EngineLost(f"{self._address} answered {response.status_code}: {said}")
                yield _events(response)
        except httpx.HTTPError as error:
            raise EngineLost(f"{self._address}: {type(error).__name__}: {error}") from error


class ActorEngine(_TrinityEngine):
    """Asks the engine's Ray actor, which supports adapters; answers come whole and cannot be cancelled."""

    def __init__(self, actor: Any, versions: Versions, *, max_model_len: int, seeded: bool = False) -> None:
        """Take the actor's handle, the source of its weights' version, and whether to send seeds."""
        super().__init__(max_model_len=max_model_len, seeded=seeded)
        self._actor, self._versions = actor, versions

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the whole answer at once."""
        with self._busy.count():
            version = await self._versions.now()
            adapter = await self._actor.get_lora_request.remote()
            prompt = {"prompt_token_ids": list(request.prompt_ids)}
            found = await self._actor._generate_internal.remote(  # the only method that takes ids and adapters
                prompt=prompt, lora_request=adapter, **{**_make_sampling_arguments(request, seeded=self._seeded), "logprobs": 0}
            )
        (output,) = found.outputs
        ids = list(output.token_ids)
        logprobs = [float(of[token].logprob) for token, of in zip(ids, output.logprobs, strict=True)]
        yield Chunk(
            ids=ids, logprobs=logprobs, weight_version=version, finish_reason=_finish_reason(output.finish_reason, ids, request)
        )


def _make_sampling_arguments(request: Request, *, seeded: bool) -> dict[str, Any]:
    sampling = request.sampling
    return {
        **({"seed": sampling.seed % SEEDS} if seeded else {}),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_tokens": sampling.max_tokens,
        "stop_token_ids": list(sampling.stop_token_ids),
    }


def _body(request: Request, model: str, *, seeded: bool) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": list(request.prompt_ids),
        "stream": True,
        **_make_sampling_arguments(request, seeded=seeded),
        # The server would fill in missing values from its generation config.
        "repetition_penalty": 1.0,
        "min_p": 0.0,
        "logprobs": request.sampling.top_logprobs,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "skip_special_tokens": False,
        "add_special_tokens": False,
    }


async def _events(response: httpx.Response) -> AsyncIterator[Mapping[str, Any]]:
    async for line in response.aiter_lines():
        if not line.startswith(DATA):
            continue
        content = line.removeprefix(DATA).strip()
        if content == DONE:
            return
        try:
            event = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise EngineLost(f"{response.url} sent invalid JSON: {content[:200]!r}") from error
        if "error" in event:
            raise EngineLost(f"{response.url}: {event['error']}")
        yield event


def _chunk(event: Mapping[str, Any], request: Request, version: int, address: str) -> Chunk | None:
    """Return the tokens of an event; None for one without tokens or an end."""
    choices = event.get("choices") or ()
    if not choices:
        return None
    choice = choices[0]
    ids, said = choice.get("token_ids"), choice.get("finish_reason")
    found = choice.get("logprobs") or {}
    logprobs = found.get("token_logprobs") or []
    if ids is None or len(ids) != len(logprobs):
        raise EngineLost(
            f"{address} sent {'no token ids' if ids is None else f'{len(ids)} token ids'} with {len(logprobs)} "
            "log-probabilities; vLLM sends both from 0.10.2 on"
        )
    if not ids and said is None:
        return None
    return Chunk(
        ids=ids,
        logprobs=logprobs,
        weight_version=version,
        finish_reason=None if said is None else _finish_reason(said, ids, request),
        top_logprobs=[_parse_top_logprobs(top) for top in found.get("top_logprobs") or ()]
        if request.sampling.top_logprobs
        else (),
    )


def _parse_top_logprobs(top: Mapping[str, float] | None) -> dict[int, float]:
    """Read `{"token_id:17": -0.1}`."""
    return {int(name.rpartition(":")[2]): value for name, value in (top or {}).items()}


def _finish_reason(said: str | None, ids: list[int], request: Request) -> FinishReason:
    if said in ("abort", "aborted"):
        return "abort"
    return "length" if said == "length" else "stop"
