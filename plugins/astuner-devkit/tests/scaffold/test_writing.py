from __future__ import annotations

import stat
from pathlib import Path

import pytest

from astuner.contract.errors import RunFailed, UsageError
from astuner_devkit.scaffold.writing import write_package

FILES = {"README.md": "# acme\n", "src/acme.py": "ACME = 1\n"}


def test_every_file_is_written(tmp_path: Path) -> None:
    write_package(tmp_path / "acme", FILES)
    found = {path.relative_to(tmp_path / "acme").as_posix(): path.read_text() for path in tmp_path.rglob("*.*")}
    assert found == FILES


def test_nothing_else_is_left_behind(tmp_path: Path) -> None:
    write_package(tmp_path / "acme", FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["acme"]


def test_the_directory_has_the_rights_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write_package(tmp_path / "acme", FILES)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("other", "acme")}
    assert len(modes) == 1


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    write_package(tmp_path / "acme", FILES)
    assert (tmp_path / "acme" / "README.md").exists()


def test_a_directory_that_holds_anything_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"acme: holds 'thesis.txt', and nothing is overwritten"):
        write_package(tmp_path / "acme", FILES)
    assert [path.name for path in tmp_path.rglob("*")] == ["acme", "thesis.txt"]


def test_a_file_in_the_way_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "acme").write_text("mine")
    with pytest.raises(UsageError, match=r"acme: this is a file"):
        write_package(tmp_path / "acme", FILES)
    assert (tmp_path / "acme").read_text() == "mine"


def test_a_link_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "acme").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"acme: this is a link"):
        write_package(tmp_path / "acme", FILES)


def test_a_parent_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--dir .*absent: there is no such directory"):
        write_package(tmp_path / "absent" / "acme", FILES)


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"acme: File exists|acme: Not a directory"):
        write_package(tmp_path / "acme", {**FILES, "README.md/below": "a file is no directory"})
    assert list(tmp_path.iterdir()) == []
