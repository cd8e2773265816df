"""Every path that CONTRIBUTING names exists, and the arrows that it draws are the dependencies of the packages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:astuner-core|plugins|tests|docs|benchmarks|constraints|scripts|\.ci)/[\w./-]+)`", PAGE)))
ROWS = [re.findall(r"`([\w./]+)`", row.split("|")[2]) for row in PAGE.splitlines() if row.startswith("|") and row.count("|") == 3]


def test_there_are_paths() -> None:
    assert len(PATHS) > 25


@pytest.mark.parametrize("path", PATHS)
def test_a_named_path_exists(path: str) -> None:
    assert (REPOSITORY / path).exists()


@pytest.mark.parametrize("row", [row for row in ROWS if len(row) > 1 and row[0].startswith("plugins/")], ids=lambda row: row[0])
def test_files_named_after_a_path_lie_in_its_folder(row: list[str]) -> None:
    folder = (REPOSITORY / row[0]).parent
    assert [name for name in row[1:] if not (folder / name).exists() and not (REPOSITORY / name).exists()] == []


def test_the_arrows_are_the_dependencies() -> None:
    drawn = {}
    for package, others in re.findall(r"^    (astuner[\w-]*)(?: \(no code\))? ──▶ (.*)$", PAGE, re.MULTILINE):
        drawn[package] = {f"astuner-{name}" for name in re.findall(r"(?:\bastuner| )-(\w[\w-]*)", others)}
    found = {}
    for file in REPOSITORY.glob("plugins/*/pyproject.toml"):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        needed = {re.match(r"[\w-]*", one).group() for one in project["dependencies"] if one.startswith("astuner")}  # type: ignore[union-attr]
        if needed - {"astuner-core"}:
            found[project["name"]] = needed - {"astuner-core"}
    assert drawn == found
