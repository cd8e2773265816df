"""Uploading, to a server on this machine that takes what `huggingface_hub` sends.

It hides what the hub alone decides: which tokens may write where, names that are taken or not allowed, quotas, its other way of
storing large files (Xet), and whether a card is shown as meant.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.command_line import CommandResult

hub = pytest.importorskip("huggingface_hub")

Cli = Callable[..., CommandResult]
TOKEN = "hf_0123456789abcdefghijklmnopqrstuvwx"
WEIGHTS = (2).to_bytes(8, "little") + b"{}"


class Hub(ThreadingHTTPServer):
    """Repositories by name, each with its files and whether it is private."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, dict[str, Any]] = {}
        self.blobs: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: object) -> None:
        pass

    def send(self, code: int, document: Any, **headers: str) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.send(401, {"error": "Invalid credentials"})
        if self.path.startswith("/api/whoami-v2"):
            return self.send(200, {"name": "ann", "type": "user"})
        found = self.server.repositories.get(self.path.removeprefix("/api/models/").partition("/revision")[0].partition("?")[0])
        if found is None:
            return self.send(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        return self.send(200, {"id": "ann/shop", "private": found["private"], "siblings": [], "tags": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            # Releases before 2 send the other key.
            private = asked.get("visibility") == "private" or bool(asked.get("private"))
            name = f"{asked.get('organization') or 'ann'}/{asked['name']}"
            self.server.repositories.setdefault(name, {"private": private, "files": {}})
            return self.send(200, {"url": f"{self.server.url}/{name}", "id": name})
        if self.path == "/api/validate-yaml":
            return self.send(200, {"errors": [], "warnings": []})
        if "/preupload/" in self.path:
            modes = [
                {"path": one["path"], "uploadMode": "lfs" if one["path"].endswith("safetensors") else "regular"}
                for one in json.loads(body)["files"]
            ]
            return self.send(200, {"files": [{**one, "shouldIgnore": False} for one in modes]})
        if self.path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            actions = [{**one, "actions": {"upload": {"href": f"{self.server.url}/blobs/{one['oid']}"}}} for one in objects]
            return self.send(200, {"transfer": "basic", "objects": actions})
        if "/commit/" in self.path:
            name = self.path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.server.repositories[name]["files"][value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    self.server.repositories[name]["files"][value["path"]] = self.server.blobs[value["oid"]]
            return self.send(200, {"commitUrl": f"{self.server.url}/{name}/commit/1", "commitOid": "1" * 40, "success": True})
        return self.send(404, {"error": self.path})

    def do_PUT(self) -> None:
        self.server.blobs[self.path.rpartition("/")[2]] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send(200, {})


@pytest.fixture
def hub_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    # huggingface_hub has read its variables when it was imported.
    monkeypatch.setattr("huggingface_hub.hf_api.ENDPOINT", server.url, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    made = tmp_path / "adapters"
    made.mkdir()
    (made / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base", "r": 4}))
    (made / "adapter_model.safetensors").write_bytes(WEIGHTS)
    return made


def test_the_export_is_uploaded_to_a_private_repository(cli: Cli, hub_server: Hub, adapters: Path) -> None:
    ended = cli("export", str(adapters), "--out", "out", "--push", "ann/shop")
    assert ended.code == 0, ended.err
    assert ended.err.endswith(f"uploaded it to {hub_server.url}/ann/shop\n")
    made = hub_server.repositories["ann/shop"]
    assert made["private"]
    assert set(made["files"]) == {"README.md", "adapter_config.json", "adapter_model.safetensors"}
    assert made["files"]["adapter_model.safetensors"] == WEIGHTS
    assert b"base_model: org/base" in made["files"]["README.md"]


def test_a_public_one_is_asked_for(cli: Cli, hub_server: Hub, adapters: Path) -> None:
    assert cli("export", str(adapters), "--out", "out", "--push", "ann/shop", "--public").code == 0
    assert not hub_server.repositories["ann/shop"]["private"]


def test_a_public_repository_gets_nothing_that_was_meant_to_be_private(cli: Cli, hub_server: Hub, adapters: Path) -> None:
    hub_server.repositories["ann/shop"] = {"private": False, "files": {}}
    ended = cli("export", str(adapters), "--out", "out", "--push", "ann/shop")
    assert ended.code == 2
    assert "ann/shop: exists and is public; add --public" in ended.err
    assert hub_server.repositories["ann/shop"]["files"] == {}


def test_a_token_that_the_hub_refuses_is_named_before_the_export(
    cli: Cli, hub_server: Hub, adapters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    ended = cli("export", str(adapters), "--out", str(tmp_path / "out"), "--push", "ann/shop")
    assert ended.code == 2
    assert "the hub does not accept your token; log in with `hf auth login`" in ended.err
    assert not (tmp_path / "out").exists()


def test_adapters_of_a_local_model_need_its_name_on_the_hub(cli: Cli, hub_server: Hub, adapters: Path, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (adapters / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(tmp_path / "base"), "r": 4}))
    refused = cli("export", str(adapters), "--out", "out", "--push", "ann/shop")
    assert refused.code == 2
    assert "--base OWNER/NAME" in refused.err
    assert cli("export", str(adapters), "--out", "out", "--push", "ann/shop", "--base", "org/base").code == 0
    config = json.loads(hub_server.repositories["ann/shop"]["files"]["adapter_config.json"])
    assert config["base_model_name_or_path"] == "org/base"


def test_a_hub_that_is_not_there_is_named(cli: Cli, hub_server: Hub, adapters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.hf_api.ENDPOINT", "http://127.0.0.1:9", raising=False)
    ended = cli("export", str(adapters), "--out", "out", "--push", "ann/shop")
    assert ended.code == 1
    assert "--push ann/shop: the hub cannot be reached" in ended.err
