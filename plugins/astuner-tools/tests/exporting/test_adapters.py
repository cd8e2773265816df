"""`astuner export` of a directory of LoRA adapters that belongs to no run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from kill_points import kill_before_each_change


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    made = tmp_path / "adapters"
    made.mkdir()
    (made / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base", "r": 4}))
    (made / "adapter_model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return made


def test_it_is_copied(cli: Any, adapters: Path, tmp_path: Path) -> None:
    ended = cli("export", str(adapters), "--out", str(tmp_path / "out"))
    assert (ended.code, ended.err) == (0, f"exported {adapters} to {tmp_path / 'out'}\n")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
    }


def test_a_damaged_file_is_named(cli: Any, adapters: Path, tmp_path: Path) -> None:
    (adapters / "adapter_model.safetensors").write_bytes(b"half")
    ended = cli("export", str(adapters), "--out", str(tmp_path / "out"))
    assert ended.code != 0
    assert "adapter_model.safetensors" in ended.err
    assert not (tmp_path / "out").exists()


def test_a_directory_of_neither_is_refused(cli: Any, tmp_path: Path) -> None:
    ended = cli("export", str(tmp_path), "--out", str(tmp_path / "out"))
    assert ended.code == 2
    assert "not a run directory (it has no run.json)" in ended.err


@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_is_in_the_way_is_not_overwritten(cli: Any, adapters: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").touch()
    ended = cli("export", str(adapters), "--out", str(tmp_path / place))
    assert ended.code == 2
    assert ended.err == f"error: --out {tmp_path / place}: exists and is not an empty directory; name another one\n"


def test_a_killed_export_leaves_nothing_that_looks_like_adapters(cli: Any, adapters: Path, tmp_path: Path) -> None:
    (adapters / "adapter_model.safetensors").chmod(0o600)
    place = tmp_path / "exports"
    command = ("export", str(adapters), "--out", str(place / "out"))
    killed = set()
    for number in kill_before_each_change(lambda: cli(*command), place):
        killed.add(number)
        whole = {"README.md", "adapter_config.json", "adapter_model.safetensors"}
        assert not (place / "out").exists() or {path.name for path in (place / "out").iterdir()} == whole
        shutil.rmtree(place / "out", ignore_errors=True)
    assert len(killed) > 5
    assert [path.name for path in place.iterdir()] == ["out"]
    assert (place / "out" / "adapter_model.safetensors").stat().st_mode & 0o044
