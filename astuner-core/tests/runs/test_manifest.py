"""A checkpoint is durable before it has its name, and damage to it is found, named and survived."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from astuner.runs.store.checkpoints import (
    begin_checkpoint,
    check_intact,
    find_last_intact,
    finish_checkpoint,
    prune_checkpoints,
    set_aside,
)
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.manifest import DamagedCheckpoint, find_damage, write_manifest

TENSORS = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


def write_safetensors(path: Path) -> None:
    header = json.dumps(TENSORS).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))


@pytest.fixture
def directory(tmp_path):
    found = RunDirectory(tmp_path / "run")
    found.open()
    yield found
    found.close()


def save(directory, *steps):
    for step in steps:
        written = begin_checkpoint(directory, step)
        (written / "trainer").mkdir()
        write_safetensors(written / "model.safetensors")
        (written / "trainer" / "state.json").write_text(json.dumps({"step": step}))
        finish_checkpoint(directory, step)


def flip(path: Path, at: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x40
    path.write_bytes(content)


@pytest.fixture
def calls(monkeypatch):
    """What reaches the system, in order: `sync NAME` and `rename NAME`."""
    found: list[str] = []
    fsync, rename = os.fsync, os.rename

    def record_sync(handle):
        found.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        fsync(handle)

    def record_rename(source, target, **more):
        found.append(f"rename {Path(source).name}")
        rename(source, target, **more)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "rename", record_rename)
    return found


def test_every_file_and_folder_reaches_the_disk_before_the_checkpoint_has_its_name(directory, calls):
    save(directory, 2)
    before = calls[: calls.index("rename writing_2")]
    for name in ("model.safetensors", "state.json", "trainer", "writing_2", "manifest.json.part"):
        assert f"sync {name}" in before
    assert before.index("sync trainer") > before.index("sync state.json")
    assert calls[calls.index("rename writing_2") + 1 :] == ["sync checkpoints"]


def test_a_checkpoint_as_it_was_written_has_no_damage(directory):
    save(directory, 2)
    assert find_damage(directory.checkpoint(2)) == []


@pytest.mark.parametrize("file", ["model.safetensors", "trainer/state.json"])
def test_a_flipped_byte_is_found_and_named(directory, file):
    save(directory, 2)
    flip(directory.checkpoint(2) / file)
    (damage,) = find_damage(directory.checkpoint(2))
    assert damage.startswith(f"{file}: damaged: its sha256 is ")


def test_a_file_that_was_cut_short_is_named_with_both_sizes(directory):
    save(directory, 2)
    path = directory.checkpoint(2) / "model.safetensors"
    whole = path.stat().st_size
    os.truncate(path, 20)
    assert find_damage(directory.checkpoint(2)) == [
        f"model.safetensors: damaged: has 20 bytes, and had {whole} when it was written"
    ]


def test_a_missing_file_is_named(directory):
    save(directory, 2)
    (directory.checkpoint(2) / "model.safetensors").unlink()
    assert find_damage(directory.checkpoint(2)) == ["model.safetensors: missing"]


@pytest.mark.parametrize("content", [b"", b"\0\0", b"{}", b"[]", b'{"digest": "sha256", "files": [1]}', b"\xff"])
def test_a_damaged_manifest_is_named(directory, content):
    save(directory, 2)
    (directory.checkpoint(2) / "manifest.json").write_bytes(content)
    (damage,) = find_damage(directory.checkpoint(2))
    assert damage.startswith("manifest.json: damaged")


def test_a_checkpoint_of_an_older_version_has_only_its_formats_checked(tmp_path):
    write_safetensors(tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    assert find_damage(tmp_path) == []
    flip(tmp_path / "model.safetensors")
    assert find_damage(tmp_path) == []
    (tmp_path / "config.json").write_text("")
    os.truncate(tmp_path / "model.safetensors", 30)
    assert [damage.partition(":")[0] for damage in find_damage(tmp_path)] == ["config.json", "model.safetensors"]


def test_a_link_to_a_file_counts_as_the_file(tmp_path):
    (tmp_path / "own").write_text("weights")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "model").symlink_to(tmp_path / "own")
    write_manifest(tmp_path / "checkpoint")
    flip(tmp_path / "own")
    (damage,) = find_damage(tmp_path / "checkpoint")
    assert damage.startswith("model: damaged")


def test_the_checkpoint_before_a_damaged_one_is_taken(directory):
    save(directory, 2, 4, 6)
    flip(directory.checkpoint(6) / "model.safetensors")
    flip(directory.checkpoint(4) / "trainer/state.json")
    found = find_last_intact(directory)
    assert found.step == 2
    assert [str(directory.path) in damage for damage in found.damaged] == [True, True]


def test_without_an_intact_checkpoint_the_run_begins_at_its_start(directory):
    save(directory, 2)
    flip(directory.checkpoint(2) / "model.safetensors")
    assert find_last_intact(directory).step == 0


def test_a_damaged_checkpoint_is_refused_and_the_next_intact_one_named(directory):
    save(directory, 2, 4, 6)
    flip(directory.checkpoint(6) / "model.safetensors")
    with pytest.raises(DamagedCheckpoint, match=r"model\.safetensors: damaged.*; step_4 is intact"):
        check_intact(directory.checkpoint(6), [directory.checkpoint(step) for step in (2, 4, 6)])


def test_nothing_is_deleted_if_the_new_checkpoint_cannot_be_read_back(directory):
    save(directory, 2, 4, 6)
    flip(directory.checkpoint(6) / "model.safetensors")
    assert "no earlier checkpoint is deleted" in (prune_checkpoints(directory, keep=1) or "")
    assert directory.list_saved_steps() == [2, 4, 6]


def test_checkpoints_set_aside_no_longer_count_and_go_when_their_step_is_saved_again(directory):
    save(directory, 2, 4, 6)
    set_aside(directory, after=2)
    assert directory.list_saved_steps() == [2]
    prune_checkpoints(directory, keep=None)
    assert sorted(path.name for path in directory.checkpoints.iterdir()) == ["aside_4", "aside_6", "step_2"]
    save(directory, 4)
    prune_checkpoints(directory, keep=None)
    assert sorted(path.name for path in directory.checkpoints.iterdir()) == ["aside_6", "step_2", "step_4"]
