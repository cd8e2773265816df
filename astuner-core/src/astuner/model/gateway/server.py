"""The gateway of a rollout process: one server, many episodes."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from attrs import define, field

from astuner.contract.errors import AstunerError
from astuner.model.gateway.api_keys import new_secret
from astuner.model.gateway.app import make_app
from astuner.model.gateway.recording.recorder import EpisodeRecorder
from astuner.model.gateway.transport import make_client
from astuner.model.gateway.tuner import GatewayTuner, ModelFacts
from astuner.model.http_server import ServerLimits, guard_hosts, listen, make_server
from astuner.model.http_server.hosts import App, allow_origins

if TYPE_CHECKING:
    from astuner.contract.protocols import Engine
    from astuner.model.gateway.embeddings import EmbeddingsServer
    from astuner.model.gateway.recording.episode_spec import EpisodeSpec
    from astuner.model.rendering import TemplateRenderer


READERS = 2
"""Threads that read long messages. More would take more memory, and Python lets one run at a time except while it encodes."""


@define(eq=False)
class Gateway:
    """Serves an engine as an OpenAI-compatible API, and records what each episode does with it."""

    _engine: Engine
    """Started by the caller."""
    _renderer: TemplateRenderer | None = field()
    """None for a chat-only engine."""
    _host: str = field(default="127.0.0.1", kw_only=True)
    _port: int = field(default=0, kw_only=True)
    """0 picks a free one."""
    _public_url: str | None = field(default=None, kw_only=True)
    """The gateway's address for remote agents, without `/v1`."""
    _max_body_bytes: int | None = field(default=None, kw_only=True)
    """None for what the context needs."""
    _max_connections: int = field(default=4096, kw_only=True)
    _model_name: str = field(default="astuner", kw_only=True)
    _disabled_plugins: Collection[str] = field(default=(), kw_only=True)
    """Names of wire APIs, or of their distributions, that are not served."""
    _cors_origins: Collection[str] = field(default=(), kw_only=True)
    """The origins of web pages that may call it."""
    _embedder: EmbeddingsServer | None = field(default=None, kw_only=True)
    _recorders: dict[str, EpisodeRecorder] = field(factory=dict, init=False)
    _serials: Iterator[int] = field(factory=itertools.count, init=False)
    _pool: ThreadPoolExecutor = field(factory=lambda: ThreadPoolExecutor(READERS, "gateway"), init=False)
    _app: App | None = field(default=None, init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _clients: dict[str, Any] = field(factory=dict, init=False)
    _socket: socket.socket | None = field(default=None, init=False)
    _server: Any = field(default=None, init=False)
    _serving: asyncio.Task[None] | None = field(default=None, init=False)

    @_renderer.validator
    def _check_renderer(self, attribute: Any, renderer: TemplateRenderer | None) -> None:
        if renderer is None and self._engine.capabilities.token_ids:
            raise AstunerError("gateway: an engine that takes token ids needs a renderer; give `load_renderer(model.path)`.")

    @property
    def base_url(self) -> str:
        """The URL for clients, with `/v1`."""
        if self._public_url is not None:
            return f"{self._public_url.rstrip('/').removesuffix('/v1')}/v1"
        if self._socket is None:
            raise AstunerError("gateway: it has no address before it is started.")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self._socket.getsockname()[1]}/v1"

    async def start(self) -> None:
        """Listen. The running event loop becomes the gateway's."""
        self._loop = asyncio.get_running_loop()
        self._app = make_app(
            self.recorder,
            model_name=self._model_name,
            max_body_bytes=self._max_body_bytes,
            disabled_plugins=self._disabled_plugins,
            embedder=self._embedder,
        )
        try:
            self._socket = listen(self._host, self._port)
        except OSError as error:
            where = f"gateway.port: cannot listen on {self._host}:{self._port}: {error.strerror or error}."
            remedy = "Choose a free gateway.port, or 0 for any; gateway.host must be an address of this machine."
            raise AstunerError(f"{where} {remedy}") from error
        allowed = allow_origins(self._app, self._cors_origins) if self._cors_origins else self._app
        guarded = guard_hosts(allowed, self._host, public_url=self._public_url)
        self._server = make_server(guarded, ServerLimits(max_connections=self._max_connections), name="gateway")
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise AstunerError("gateway: the server ended before it began to listen.")
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        """Close every episode, then the server."""
        for recorder in tuple(self._recorders.values()):
            await recorder.close()
        for client in self._clients.values():
            await client.shut_down()
        self._clients.clear()
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._serving = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._pool.shutdown(wait=False, cancel_futures=True)

    def open_episode(self, spec: EpisodeSpec) -> EpisodeRecorder:
        """Start recording an episode; its keys are valid until its recorder is closed."""
        secret = new_secret()
        targets = None if spec.trainable_targets is None else tuple(spec.trainable_targets)
        facts = ModelFacts(
            context_size=spec.find_context(self._engine.capabilities.max_model_len),
            trained_context_size=spec.find_trained_context(self._engine.capabilities.max_model_len),
            shows_reasoning=self._renderer is not None and self._renderer.splits_reasoning,
            auxiliary_models=spec.auxiliary_models,
        )
        tuner = GatewayTuner(self.base_url, secret, self._model_name, targets, facts, http_client=self._http_client)
        recorder = EpisodeRecorder(
            spec,
            self._engine,
            self._renderer,
            serial=next(self._serials),
            tuner=tuner,
            pool=self._pool,
            forget=lambda: self._recorders.pop(secret, None),
        )
        self._recorders[secret] = recorder
        return recorder

    def recorder(self, secret: str) -> EpisodeRecorder | None:
        """Return the open episode with this secret."""
        return self._recorders.get(secret)

    def _http_client(self, sdk: str) -> Any:
        if self._app is None or self._loop is None:
            raise AstunerError("gateway: start it before a workflow asks for a client.")
        from astuner.model.gateway.plain_openai import client_library

        library = client_library(sdk)
        if library.__name__ not in self._clients:
            self._clients[library.__name__] = make_client(self._app, self._loop, library)
        return self._clients[library.__name__]
