"""The server of an engine: who may ask it, and how it is started."""

from __future__ import annotations

import argparse
from collections.abc import MutableMapping
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("trinity") is None:
    pytest.skip("Trinity is not installed", allow_module_level=True)

from astuner_trinity.explorer.guarded_model import KEY, RequireKey, wrap_parser

RIGHT = (b"authorization", b"Bearer right")
ANSWERED = {"type": "http.response.start", "status": 200}


async def ask(path: str, *headers: tuple[bytes, bytes], kind: str = "http") -> list[MutableMapping[str, Any]]:
    """Return what the server sends."""
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(ANSWERED)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await RequireKey(app)({"type": kind, "path": path, "headers": headers}, None, send)
    return sent


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "right")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/completions", "/tokenize", "/metrics", "/docs", "/", "/health/../metrics"])
@pytest.mark.parametrize("headers", [(), ((b"authorization", b"Bearer wrong"),), ((b"authorization", b"right"),)])
@pytest.mark.asyncio
async def test_a_stranger_is_refused_at_every_path(path: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    start, body = await ask(path, *headers)
    assert start["status"] == 401
    assert b"access-control-allow-origin" not in dict(start["headers"])
    assert b"key of the run" in body["body"]


@pytest.mark.parametrize(
    ("path", "headers"), [("/metrics", [(b"authorization", b"Bearer right")]), ("/health", []), ("/load", [])]
)
@pytest.mark.asyncio
async def test_holders_of_the_key_are_answered_and_trinity_where_it_has_none(path: str, headers: list[Any]) -> None:
    assert await ask(path, *headers) == [ANSWERED]


@pytest.mark.asyncio
async def test_a_websocket_without_the_key_gets_nothing() -> None:
    assert await ask("/v1/realtime", kind="websocket") == []


def test_the_server_is_guarded_whatever_options_trinity_passes() -> None:
    def make_arg_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        parser.add_argument("--host")
        parser.add_argument("--allowed-origins", default=["*"])
        parser.add_argument("--middleware", action="append", default=[])
        parser.add_argument("--disable-uvicorn-access-log", action="store_true")
        return parser

    arguments = wrap_parser(make_arg_parser)(argparse.ArgumentParser()).parse_args(["--host", "127.0.0.1"])
    assert arguments.middleware == ["astuner_trinity.explorer.guarded_model.RequireKey"]
    assert arguments.allowed_origins == []
    assert arguments.disable_uvicorn_access_log is True
