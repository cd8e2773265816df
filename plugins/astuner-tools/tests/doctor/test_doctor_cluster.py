from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from astuner_tools.doctor.cluster import ray_rows
from astuner_tools.doctor.rows import Row


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def address_row() -> Row:
    return next(row for row in ray_rows() if row.what == "RAY_ADDRESS")


@pytest.mark.parametrize("written", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_a_cluster_that_answers_is_ok(listening: int, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", written.format(listening))
    assert address_row().status == "ok"


def test_a_cluster_that_does_not_answer_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    assert address_row().status == "broken"
    assert f"127.0.0.1:{port} does not answer within 1 s" in address_row().detail


def test_an_address_without_a_port_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "head-node")
    assert address_row().detail == "'head-node' is not host:port"


def test_auto_is_the_cluster_that_ray_wrote_down(listening: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert address_row().detail == "auto, and no cluster runs on this machine"
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{listening}")
    assert address_row().detail == f"127.0.0.1:{listening} answers"
