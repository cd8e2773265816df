"""The gateway of a rollout process: one server, many episodes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from astuner.errors import AstunerError
from astuner.gateway.api_keys import new_secret
from astuner.gateway.app import App, make_app
from astuner.gateway.recording.recorder import EpisodeRecorder
from astuner.gateway.transport import client_library, make_client
from astuner.gateway.tuner import GatewayTuner

if TYPE_CHECKING:
    from astuner.gateway.recording.episode_spec import EpisodeSpec
    from astuner.protocols import Engine
    from astuner.rendering import TemplateRenderer


LONGEST_IDLE_S = 600
"""For an idle connection. Clients drop theirs after seconds; a server that closes first, just as the next request
arrives, loses that request."""


class Gateway:
    """Serves an engine as an OpenAI-compatible API, and records what each episode does with it."""

    def __init__(
        self,
        engine: Engine,
        renderer: TemplateRenderer | None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        public_url: str | None = None,
        max_body_bytes: int = 32 << 20,
        model_name: str = "astuner",
    ) -> None:
        """`engine` is started by the caller; `renderer` may be None for a chat-only engine.

        `port` 0 picks a free one. `public_url` is the gateway's address for remote agents, without `/v1`.
        """
        if renderer is None and engine.capabilities.token_ids:
            raise AstunerError("gateway: an engine that takes token ids needs a renderer; give `load_renderer(model.path)`.")
        self._engine = engine
        self._renderer = renderer
        self._host = host
        self._port = port
        self._public_url = public_url
        self._max_body_bytes = max_body_bytes
        self._model_name = model_name
        self._recorders: dict[str, EpisodeRecorder] = {}
        self._serials = itertools.count()
        self._app: App | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: dict[str, Any] = {}
        self._socket: socket.socket | None = None
        self._server: Any = None
        self._serving: asyncio.Task[None] | None = None

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
        import uvicorn

        class Server(uvicorn.Server):
            """Leaves signal handling to the run."""

            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

        self._loop = asyncio.get_running_loop()
        self._app = make_app(self.recorder, model_name=self._model_name, max_body_bytes=self._max_body_bytes)
        self._socket = _listen(self._host, self._port)
        config = uvicorn.Config(
            self._app,
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            log_level="warning",
            timeout_graceful_shutdown=2,
            timeout_keep_alive=LONGEST_IDLE_S,
        )
        self._server = Server(config)
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

    def open_episode(self, spec: EpisodeSpec) -> EpisodeRecorder:
        """Start recording an episode; its keys are valid until its recorder is closed."""
        secret = new_secret()
        targets = None if spec.trainable_targets is None else tuple(spec.trainable_targets)
        tuner = GatewayTuner(self.base_url, secret, self._model_name, targets, http_client=self._http_client)
        recorder = EpisodeRecorder(
            spec,
            self._engine,
            self._renderer,
            serial=next(self._serials),
            tuner=tuner,
            forget=lambda: self._forget(secret),
        )
        self._recorders[secret] = recorder
        return recorder

    def recorder(self, secret: str) -> EpisodeRecorder | None:
        """Return the open episode with this secret."""
        return self._recorders.get(secret)

    def _forget(self, secret: str) -> None:
        self._recorders.pop(secret, None)

    def _http_client(self, sdk: str) -> Any:
        if self._app is None or self._loop is None:
            raise AstunerError("gateway: start it before a workflow asks for a client.")
        library = client_library(sdk)
        if library.__name__ not in self._clients:
            self._clients[library.__name__] = make_client(self._app, self._loop, library)
        return self._clients[library.__name__]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio sends small writes at once; else an answer's body waits 40 ms for its head's ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise AstunerError(
            f"gateway.port: cannot listen on {host}:{port}: {error.strerror or error}. Choose a free gateway.port, or 0 for any; "
            "gateway.host must be an address of this machine."
        ) from error
    listening.setblocking(False)
    return listening
