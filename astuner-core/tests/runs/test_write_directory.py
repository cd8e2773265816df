"""Directories that commands write: whole or absent, whenever the command is killed, with the access that the umask gives."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from kill_points import kill_before_each_change

from astuner.contract.errors import RunFailed, UsageError
from astuner.runs.store.atomic import make_beside, write_directory, write_text
from astuner.shared.private_files import open_private

WHOLE = ["config.json", "model.safetensors", "more", "tokenizer.json"]
FILES = ("config.json", "model.safetensors", "tokenizer.json")


def write_model(out: Path) -> None:
    with write_directory(out) as made:
        (made / "more").mkdir()
        for name in FILES:
            with open_private(made / name, "w") as file:
                file.write(name)


def list_names(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


@pytest.mark.parametrize("exists", [False, True])
def test_a_killed_command_leaves_no_part_of_it_and_the_next_one_works(tmp_path: Path, exists: bool) -> None:
    out, again = tmp_path / "model", tmp_path / "again"
    killed = set()
    for number in kill_before_each_change(lambda: write_model(out), tmp_path):
        killed.add(number)
        assert not out.exists() or list_names(out) in ([], WHOLE)
        write_model(again)
        assert list_names(again) == WHOLE
        for path in (again, out):
            shutil.rmtree(path, ignore_errors=True)
        assert list_names(tmp_path) == []
        if exists:
            out.mkdir()
    assert len(killed) > 6
    assert list_names(out) == WHOLE


def test_what_another_process_is_making_is_not_deleted(tmp_path: Path) -> None:
    with make_beside(tmp_path / "one") as beside:
        write_model(tmp_path / "two")
        assert beside.is_dir()
    assert list_names(tmp_path) == ["two"]


@pytest.mark.parametrize(("umask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0o002, 0o664, 0o775)])
def test_modes_are_those_of_the_umask(tmp_path: Path, umask: int, file: int, folder: int) -> None:
    before = os.umask(umask)
    try:
        write_model(tmp_path / "model")
    finally:
        os.umask(before)
    found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert found == {"more": folder, **dict.fromkeys(FILES, file)}
    assert (tmp_path / "model").stat().st_mode & 0o777 == folder


def test_the_working_directory_is_filled_and_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    number = tmp_path.stat().st_ino
    write_model(Path())
    assert list_names(Path()) == WHOLE
    assert Path().stat().st_ino == number


def test_a_part_in_the_working_directory_has_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in kill_before_each_change(lambda: write_model(Path()), tmp_path):
        whole = {"model.safetensors", "more", "tokenizer.json"} <= set(list_names(tmp_path))
        assert whole or not (tmp_path / "config.json").exists()
        for path in tmp_path.glob("[!.]*"):
            path.rmdir() if path.is_dir() else path.unlink()


def test_a_link_to_an_empty_directory_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_model(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "config.json").is_file()


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    def fill_the_disk() -> None:
        with write_directory(tmp_path / "model") as made:
            (made / "config.json").touch()
            raise OSError(28, "No space left on device")

    with pytest.raises(RunFailed, match="model: No space left"):
        fill_the_disk()
    assert list_names(tmp_path) == []


def test_a_name_that_is_taken_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    def take_the_name() -> None:
        with write_directory(tmp_path / "model"):
            (tmp_path / "model").mkdir()
            (tmp_path / "model" / "mine").touch()

    with pytest.raises(UsageError, match="exists and is not"):
        take_the_name()
    assert list_names(tmp_path / "model") == ["mine"]


def test_a_file_of_a_command_is_whole_or_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "tune.yaml").write_text("old")
    for _ in kill_before_each_change(lambda: write_text(tmp_path / "tune.yaml", "new", private=False), tmp_path):
        assert (tmp_path / "tune.yaml").read_text() == "old"
    assert list_names(tmp_path) == ["tune.yaml"]
    assert (tmp_path / "tune.yaml").read_text() == "new"


def test_a_file_of_a_command_is_written_through_links_and_into_pipes(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").touch()
    (tmp_path / "link.yaml").symlink_to(tmp_path / "real.yaml")
    write_text(tmp_path / "link.yaml", "a: 1", private=False)
    assert (tmp_path / "real.yaml").read_text() == "a: 1"
    write_text(Path(os.devnull), "a: 1", private=False)
    assert not Path(os.devnull).is_file()
