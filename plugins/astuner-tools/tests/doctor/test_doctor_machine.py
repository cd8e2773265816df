from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from astuner.settings.config.model import Config, Debug, Gateway
from astuner_tools.doctor.ports import port_rows
from astuner_tools.doctor.rows import Row
from astuner_tools.doctor.space import measure_available_memory_bytes, space_rows


def ports(gateway: Gateway | None = None, debug: Debug | None = None) -> dict[str, Row]:
    return {row.what: row for row in port_rows(Config(gateway=gateway or Gateway(), debug=debug or Debug()))}


def test_a_taken_gateway_port_is_broken_and_a_freed_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ports(Gateway(port=port))["gateway.port"].status == "broken"
    assert ports(Gateway(port=port))["gateway.port"].status == "ok"


def test_a_taken_port_of_the_vllm_server_is_a_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        row = ports(debug=Debug(debug_vllm_port=port))["debug.debug_vllm_port"]
    assert row.status == "warning"


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    assert ports(Gateway(host="192.0.2.1", port=4000))["gateway.port"].status == "broken"


def test_a_run_directory_that_is_not_there_yet_is_on_the_disk_of_its_parent(tmp_path: Path) -> None:
    directory = tmp_path / "launcher_record" / "run"
    disk = next(iter(space_rows(directory)))
    assert disk.detail.endswith(f"GiB free at {directory}")


def test_a_run_directory_below_a_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "launcher_record").write_text("a file")
    assert next(iter(space_rows(tmp_path / "launcher_record" / "run"))).status == "broken"


@pytest.mark.parametrize(("limit", "expected"), [("max", 4096), ("4000", 3000), ("500", 0), (None, 4096)])
def test_a_containers_limit_bounds_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, expected: int
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=4096))
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text("1000\n")
    assert measure_available_memory_bytes(tmp_path) == expected
