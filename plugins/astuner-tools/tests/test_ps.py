"""`astuner ps`: what we started."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.shared.processes import Lease, ProgramHandle, ProgramSpec, launch, register_run

pytestmark = pytest.mark.usefixtures("own_state")

Start = Callable[..., ProgramHandle]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def make(name: str, **more: Any) -> ProgramHandle:
        return launch(ProgramSpec(command=["sleep", "60"], kind="service", name=name, log=tmp_path / f"{name}.log", **more))

    return make


def test_ps_json_is_one_document(cli: Any, start: Start, tmp_path: Path) -> None:
    launched = start("web", port=8080, url="http://127.0.0.1:8080", lease=Lease(idle_s=60), directory=tmp_path)
    [row] = json.loads(cli("ps", "--json").out)
    assert (row["name"], row["kind"], row["pid"]) == ("web", "service", launched.record.program)
    assert (row["port"], row["url"], row["directory"]) == (8080, "http://127.0.0.1:8080", str(tmp_path))
    assert row["memory_bytes"] > 100_000
    assert 0 < row["idle_left_s"] <= 60


def test_ps_shows_no_key(cli: Any, start: Start) -> None:
    start("vllm", facts={"model": "m", "key": "sesame"})
    assert "sesame" not in cli("ps", "--json").out + cli("ps").out


def test_ps_json_of_nothing_is_an_empty_list(cli: Any) -> None:
    assert json.loads(cli("ps", "--json").out) == []


def test_ps_is_a_table(cli: Any, start: Start, tmp_path: Path) -> None:
    start("web", lease=Lease(idle_s=None))
    with register_run("mine", tmp_path):
        heads, web, mine = cli("ps").out.splitlines()
    assert heads.split()[:4] == ["ID", "KIND", "NAME", "PID"]
    assert "until stopped" in web
    assert mine.split()[1:3] == ["run", "mine"]
