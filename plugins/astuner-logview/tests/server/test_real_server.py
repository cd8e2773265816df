"""The server over sockets: what it answers to requests that no browser sends."""

from __future__ import annotations

import gzip
import threading
from typing import Any

import pytest


def test_the_list_of_runs_is_json_that_is_kept_nowhere(server: Any) -> None:
    with server.open() as client:
        answer = client.get("/api/runs")
        assert answer.json()["runs"] == []
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/nothing", "/api/runs/", "/api/runs/x/nothing", "/api/runs/%2e%2e/metrics"]
)
def test_an_address_that_does_not_exist_says_so(server: Any, path: str) -> None:
    with server.open() as client:
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]


@pytest.mark.parametrize("run", ["nothing", "..%2f..%2fetc", "%00", "%ff", "a" * 5000, "%F0%9F%98%80"])
def test_a_run_that_does_not_exist_says_so(server: Any, run: str) -> None:
    with server.open() as client:
        answer = client.get(f"/api/runs/{run}/metrics")
        assert answer.status_code == 404
        assert set(answer.json()) == {"error", "remedy"}


def test_many_parameters_are_refused(server: Any) -> None:
    with server.open() as client:
        answer = client.get("/api/runs?" + "&".join(f"a{number}=1" for number in range(1001)))
        assert answer.status_code == 400
        assert "query" in answer.json()["error"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /api/runs HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /api/runs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
        (b"GET /api/runs HTTP/1.1\r\nHost: evil.example:PORT\r\n\r\n", b"403"),
        (b"GET /api/runs HTTP/1.0\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
def test_a_request_names_the_server_as_it_is_called(server: Any, head: bytes, status: bytes) -> None:
    answer = server.send(head.replace(b"PORT", str(server.port).encode()).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert answer.split(b" ")[1] == status


def test_a_large_body_is_refused_before_it_is_whole(server: Any) -> None:
    with server.open() as client:
        headers = {"origin": server.origin, "content-type": "application/json"}
        answer = client.post("/api/config/explain", content=b'{"yaml": "' + b"x" * 300_000, headers=headers)
        assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff", b"[" * 100_000, b'{"a": 1'])
def test_a_body_that_is_no_object_is_refused(server: Any, body: bytes) -> None:
    with server.open() as client:
        headers = {"origin": server.origin, "content-type": "application/json"}
        answer = client.post("/api/config/explain", content=body, headers=headers)
        assert answer.status_code == 400
        assert "body" in answer.json()["error"]


def test_many_clients_at_once_are_all_answered(server: Any) -> None:
    found: list[int] = []

    def ask() -> None:
        with server.open() as client:
            found.extend(client.get("/api/runs").status_code for _ in range(5))

    server.open().close()
    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 100


def test_a_large_answer_is_compressed_if_the_client_can_read_that(server: Any) -> None:
    with server.open() as client:
        plain = client.get("/api/config/schema?backbone=debug", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        with client.stream("GET", "/api/config/schema?backbone=debug", headers={"accept-encoding": "gzip"}) as packed:
            assert packed.headers["content-encoding"] == "gzip"
            assert gzip.decompress(b"".join(packed.iter_raw())) == plain.content
