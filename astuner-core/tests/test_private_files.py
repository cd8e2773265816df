"""What a run writes is its user's alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from astuner.runs.store.atomic import write_text
from astuner.runs.store.directory import RunDirectory
from astuner.shared.private_files import make_private, make_private_directory, open_private


@pytest.fixture(autouse=True)
def _generous() -> Iterator[None]:
    """The process would let everybody read and write."""
    before = os.umask(0)
    yield
    os.umask(before)


def list_open(directory: Path) -> list[str]:
    """Return what others may read, write or enter."""
    return sorted(
        str(path) for path in (directory, *directory.rglob("*")) if path.lstat().st_mode & 0o077 and not path.is_symlink()
    )


def test_a_new_run_directory_is_closed_and_so_is_what_is_written_there(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "runs" / "mine")
    directory.open()
    directory.write_run({"a": 1})
    directory.write_state(status="running")
    directory.write_config(given="a: 1", resolved="a: 1", native={})
    assert list_open(directory.path) == []
    # A library writes as it likes; nobody gets there while the run goes on.
    (directory.path / "library").mkdir()
    (directory.path / "library" / "file").write_text("x")
    directory.close()
    assert list_open(directory.path) == []


def test_the_directory_of_an_older_run_is_closed_when_it_is_opened(tmp_path: Path) -> None:
    older = tmp_path / "mine"
    (older / "episodes").mkdir(parents=True)
    (older / "episodes" / "train.jsonl").write_text("")
    (older / "config.yaml").write_text("")
    (older / "run.sh").write_text("")
    (older / "run.sh").chmod(0o755)
    directory = RunDirectory(older)
    directory.open()
    assert list_open(older) == []
    assert (older / "run.sh").stat().st_mode & 0o777 == 0o700
    directory.close()


def test_what_is_not_the_runs_own_is_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link").symlink_to(outside)
    os.link(outside, tmp_path / "run" / "same")
    make_private(tmp_path / "run")
    assert outside.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("name", [".git", "pyproject.toml"])
def test_a_directory_in_which_the_user_works_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "work.py").write_text("")
    make_private(tmp_path)
    assert (tmp_path / "work.py").stat().st_mode & 0o777 == 0o666


def test_files_are_made_private_and_existing_ones_keep_their_mode(tmp_path: Path) -> None:
    make_private_directory(tmp_path / "a" / "b")
    with open_private(tmp_path / "a" / "b" / "new", "w") as file:
        file.write("größe")
    assert list_open(tmp_path / "a" / "b") == []
    (tmp_path / "old").write_text("")
    open_private(tmp_path / "old", "ab").close()
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o666


def test_a_file_outside_of_a_run_may_stay_readable(tmp_path: Path) -> None:
    write_text(tmp_path / "rubrics.yaml", "a: 1", private=False)
    assert (tmp_path / "rubrics.yaml").stat().st_mode & 0o777 == 0o666
