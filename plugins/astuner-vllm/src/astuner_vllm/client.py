"""One vLLM server over HTTP: generation, weights, and its status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from attrs import evolve

from astuner.contract.schema import Chunk, Request
from astuner_vllm.adapters import METHOD
from astuner_vllm.answer_reader import AnswerReader
from astuner_vllm.failures import BadAnswer, Refused, ServerError, ServerLost, describe_error
from astuner_vllm.generate_request import build_body
from astuner_vllm.generate_stream import Part, read_part, read_reason
from astuner_vllm.silence_watch import SilenceWatch
from astuner_vllm.versions import Versions
from astuner_vllm.worker_access import ServerAddress

if TYPE_CHECKING:
    import httpx

WeightSync = Literal["keep", "wait", "abort"]
"""What happens to requests under way when weights are exchanged: frozen and continued, awaited, ended."""

ADAPTER_NAME = "policy-adapter"
"""The trained LoRA adapter's name in requests; of several, the beginning of it."""
UNCHANGED = "default"
"""vLLM's label for its initial weights."""
CONNECT_S = 10.0
LOOPBACK_CONNECT_S = 60.0
"""For a server on this machine: a port without a server refuses at once, so only a busy machine needs longer."""
SHORT_S = 20.0
"""For cheap requests."""
PAUSED_S = 0.2
"""Between two attempts to begin a request at a server that is paused."""
LONG_S = 600.0
"""For loading weights, and for awaiting requests under way."""


class ServerClient:
    """Talks to one server. Lives in the event loop in which `open` is called.

    A request whose connection breaks raises `ServerLost`: the caller knows whether any of the answer was used, and decides what
    follows.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        vocab_size: int | None = None,
        silence_s: float = 120.0,
        api_key: str | None = None,
        salt: int = 0,
    ) -> None:
        """`silence_s` is how long the server may send nothing at all while it owes answers, `salt` changes all seeds."""
        self.url = url.rstrip("/")
        self.versions = Versions()
        self._vocab_size = vocab_size
        self._silence = SilenceWatch(silence_s)
        self._api_key = api_key
        self._http: httpx.AsyncClient | None = None
        self._model = model
        self._adapters: dict[str, str] = {}
        self._salt = salt
        self._readings: set[AnswerReader] = set()

    @classmethod
    def at(cls, server: ServerAddress) -> ServerClient:
        """Make a client of a server that another process has started, with the weights of that moment."""
        made = cls(
            server.url,
            model=server.model,
            vocab_size=server.vocab_size,
            silence_s=server.silence_s,
            api_key=server.api_key,
            salt=server.salt,
        )
        made._adapters = dict(server.adapters)
        made.versions.take(server.label, server.version)
        return made

    def describe_address(self) -> ServerAddress:
        """Return what another process needs to use the server as this client does."""
        return ServerAddress(
            url=self.url,
            model=self._model,
            adapters=dict(self._adapters),
            vocab_size=self._vocab_size,
            silence_s=self._silence.limit_s,
            api_key=self._api_key,
            salt=self._salt,
            version=self.versions.version,
            label=self.versions.label,
            loopback=self.loopback,
        )

    @property
    def loopback(self) -> bool:
        """Whether the server runs on this machine."""
        return names_this_machine(self.url)

    @property
    def _connect_s(self) -> float:
        return LOOPBACK_CONNECT_S if self.loopback else CONNECT_S

    async def open(self) -> None:
        """Create the session; no connection is made yet."""
        import httpx

        if self._http is None:
            headers = {"accept-encoding": "identity"}
            if self._api_key:
                headers["authorization"] = f"Bearer {self._api_key}"
            self._http = httpx.AsyncClient(
                base_url=self.url,
                headers=headers,
                timeout=httpx.Timeout(None, connect=self._connect_s),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=4.0),
                trust_env=not self.loopback,  # no proxy for a server on this machine
            )

    async def close(self) -> None:
        """Close the connections; pending reads raise `ServerLost`."""
        for reading in tuple(self._readings):
            reading.break_off(ServerLost(f"{self.url}: the engine was closed"))
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

    def serve_as(self, model: str) -> None:
        """Request this model from now on, where no adapter answers."""
        self._model = model

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the tokens of a request as they come; closing the iterator ends it in the server too.

        Each chunk carries the version of the weights that sampled it. The server reports it only at the end of an
        answer, so tokens after the start of an exchange of weights are held back until then. vLLM from 0.33 on refuses new
        requests during an exchange, unless they may be `keep`t waiting: they are sent again.
        """
        until = asyncio.get_running_loop().time() + LONG_S
        while True:
            try:
                async with aclosing(self._generate(request)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except Refused as refused:
                if not refused.paused or asyncio.get_running_loop().time() > until:
                    raise
            await asyncio.sleep(PAUSED_S)

    async def _generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        model = self._adapters.get(request.target_tag, self._adapters.get("", self._model))
        body = build_body(request, model, salt=self._salt)
        tops = request.sampling.top_logprobs
        mark, count = self.versions.mark(), 0
        held: list[Part] = []
        reading = AnswerReader(self._open(), self.url, body, self._silence)
        self._readings.add(reading)
        try:
            while True:
                parts = [read_part(data, tops=tops, vocab_size=self._vocab_size, where=self.url) for data in await reading.take()]
                if not parts:
                    raise ServerLost(f"{self.url} ended the connection before the end of an answer")
                finish = parts[-1].finish
                if any(part.finish is not None for part in parts[:-1]):
                    raise BadAnswer(f"{self.url} went on after the end of an answer")
                if finish is None and mark.holds:
                    yield _chunk(parts, mark.version)
                    count += sum(len(part.ids) for part in parts)
                    continue
                held += parts
                if finish is not None:
                    reading.finished = True
                    for chunk in self._split(held, count, mark.version):
                        yield chunk
                    return
        finally:
            self._readings.discard(reading)
            await reading.close()

    async def meet(self) -> None:
        """Treat the server's weights at the first contact as version 0."""
        self._adapters.clear()
        try:
            self.versions.begin_with(await self.get_weight_label())
        except Refused:
            self.versions.begin_with(UNCHANGED)

    async def list_models(self) -> tuple[Mapping[str, Any], ...]:
        """Return the models that the server offers, as `/v1/models` describes them."""
        said = await self._ask("GET", "/v1/models", SHORT_S)
        return tuple(said.get("data", ()))

    async def is_healthy(self) -> bool:
        """Whether the server reports itself healthy."""
        try:
            await self._ask("GET", "/health", SHORT_S)
        except ServerError:
            return False
        return True

    async def get_weight_label(self) -> str:
        """Return the label of the served weights; raises `Refused` if weights cannot be exchanged."""
        return str((await self._ask("GET", "/weight_info", SHORT_S))["weight_version"])

    async def get_settings(self) -> Mapping[str, Any]:
        """Return the server's configuration as vLLM has it."""
        said = await self._ask("GET", "/server_info?config_format=json", SHORT_S)
        config: Mapping[str, Any] = said["vllm_config"]
        return config

    async def pause(self, mode: WeightSync) -> None:
        """Sample no more tokens until `resume`."""
        self.versions.begin_exchange()
        self._silence.excuse()
        await self._ask("POST", f"/pause?mode={mode}&clear_cache=false", LONG_S)

    async def resume(self) -> None:
        """Sample again."""
        self._silence.resume()
        try:
            await self._ask("POST", "/resume", SHORT_S)
        finally:
            self.versions.end_exchange()

    async def load_weights(self, directory: Path, version: int) -> None:
        """Serve the weights of the safetensors files of a directory; the server is paused."""
        try:
            await self._ask("POST", "/start_weight_update", LONG_S)
        except Refused:
            # An earlier client was cut off during an exchange.
            await self._ask("POST", "/finish_weight_update", LONG_S)
            await self._ask("POST", "/start_weight_update", LONG_S)
        await self._ask("POST", "/update_weights", LONG_S, {"update_info": {"path": str(directory)}})
        await self._ask("POST", "/finish_weight_update", LONG_S, {"weight_version": self.versions.assign_label(version)})
        await self._forget_prefixes()
        self.versions.version = version

    async def load_adapters(self, directories: Mapping[str, Path], version: int) -> None:
        """Serve LoRA adapters by target tag, `""` for all others, in place of those loaded before; the server is paused."""
        for tag, directory in directories.items():
            name = f"{ADAPTER_NAME}-{tag}" if tag else ADAPTER_NAME
            if tag not in self._adapters:
                # An earlier run may have left one with this name.
                with suppress(Refused):
                    await self._ask("POST", "/v1/unload_lora_adapter", SHORT_S, {"lora_name": name})
                await self._ask("POST", "/v1/load_lora_adapter", LONG_S, {"lora_name": name, "lora_path": str(directory)})
            await self._ask("POST", "/collective_rpc", LONG_S, {"method": METHOD, "args": [name, str(directory)]})
            self._adapters[tag] = name
        await self._ask("POST", "/update_weight_version", SHORT_S, {"new_version": self.versions.assign_label(version)})
        await self._forget_prefixes()
        self.versions.version = version

    async def _forget_prefixes(self) -> None:
        # Requests under way hold keys and values of the old weights, which are computed again with the new ones.
        said = await self._ask("POST", "/reset_prefix_cache?reset_running_requests=true", LONG_S)
        if not said.get("success", True):
            raise Refused(f"{self.url} keeps the keys and values of the old weights: /reset_prefix_cache did not succeed", 500)

    async def _ask(self, method: str, path: str, timeout_s: float, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        import httpx

        try:
            response = await self._open().request(
                method,
                path,
                json=body,
                timeout=httpx.Timeout(timeout_s, connect=self._connect_s),
                # After an internal error, vLLM closes the connection silently.
                headers={"connection": "close"},
            )
        except httpx.HTTPError as error:
            raise ServerLost(f"{self.url}{path} gave no answer: {describe_error(error)}") from error
        try:
            said = response.json()
        except ValueError:
            said = response.text
        if response.status_code != 200:
            raise Refused(f"{self.url}{path} answered {response.status_code}: {read_reason(said)}"[:600], response.status_code)
        return said if isinstance(said, dict) else {}

    def _open(self) -> httpx.AsyncClient:
        if self._http is None:
            raise ServerLost(f"{self.url}: the connection is closed")
        return self._http

    def _split(self, parts: list[Part], start: int, version: int) -> list[Chunk]:
        """Return the last parts of an answer as chunks, cut where the weights changed; `start` counts the ids before them."""
        ids = [number for part in parts for number in part.ids]
        spans = parts[-1].spans
        cuts = [(self.versions.resolve(label, self.url), max(begin - start, 0)) for label, begin in spans] or [(version, 0)]
        ends = [begin for _, begin in cuts[1:]] + [len(ids)]
        whole = _chunk(parts, version)
        pieces = [
            Chunk(
                ids=ids[begin:end],
                logprobs=whole.logprobs[begin:end],
                top_logprobs=whole.top_logprobs[begin:end],
                weight_version=served,
            )
            for (served, begin), end in zip(cuts, ends, strict=True)
            if begin < end
        ]
        *before, last = pieces or [Chunk(ids=(), logprobs=(), weight_version=cuts[-1][0])]
        return [*before, evolve(last, finish_reason=parts[-1].finish)]


def names_this_machine(url: str) -> bool:
    """Whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _chunk(parts: list[Part], version: int) -> Chunk:
    return Chunk(
        ids=[number for part in parts for number in part.ids],
        logprobs=[value for part in parts for value in part.logprobs],
        top_logprobs=[tops for part in parts for tops in part.tops],
        weight_version=version,
    )
