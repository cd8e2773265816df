"""Trinity's engines with a server for holders of the run's key alone. Runs in the processes of explorer and engines."""

from __future__ import annotations

import functools
import json
import os
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from trinity.common.models import vllm_model

KEY = "VLLM_API_KEY"
"""The environment variable of vLLM's own key, which the paths below `/v1` want too."""
OPEN_PATHS = ("/health", "/load")
"""What Trinity itself asks without a key: whether the server is alive, and its number of requests."""

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class RequireKey:
    """ASGI middleware that requires the key for every other path: vLLM's own check covers those below `/v1`."""

    def __init__(self, app: Any) -> None:
        """Wrap an application; the key comes from the environment."""
        self._app, self._expected = app, f"Bearer {os.environ[KEY]}".encode()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        """Answer 401 to a request without the key, and pass on all others."""
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS or secrets.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            body = json.dumps({"error": {"message": "This server wants the key of the run that started it.", "code": 401}})
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": body.encode()})


class GuardedModel(vllm_model.vLLMRolloutModel):
    """An engine whose server wants `api_key` of its configuration, serves no pages of other servers, and logs no requests."""

    async def run_api_server(self) -> bool:
        """Start the server, if it is enabled."""
        from vllm.entrypoints.openai import cli_args

        os.environ[KEY] = self.config.api_key
        cli_args.make_arg_parser = wrap_parser(cli_args.make_arg_parser)
        return bool(await super().run_api_server())


def wrap_parser(make_arg_parser: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap vLLM's options of a server: Trinity passes on none of those that guard it."""

    @functools.wraps(make_arg_parser)
    def make(parser: Any) -> Any:
        made = make_arg_parser(parser)
        middleware = f"{RequireKey.__module__}.{RequireKey.__name__}"
        made.set_defaults(middleware=[middleware], allowed_origins=[], disable_uvicorn_access_log=True)
        return made

    return make


def guard_engines() -> None:
    """Let Trinity make these engines from now on, in the process of its explorer."""
    vllm_model.vLLMRolloutModel = GuardedModel
