"""What `astuner plugin new` writes for each kind: built into a wheel, installed by itself, tested, checked and used."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from astuner_devkit.scaffold.kinds import SCAFFOLDS

if TYPE_CHECKING:
    from conftest import New, Package, Python


def test_its_tests_pass_as_generated(package: Package, python: Python, tmp_path: Path) -> None:
    # One that hangs says where, before it is ended.
    tests = ("-m", "pytest", "-v", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=120", package.source)
    assert " passed" in python(*tests, cwd=tmp_path, executable=package.python)


def test_plugin_check_finds_nothing_wrong(package: Package, python: Python, tmp_path: Path) -> None:
    python("-m", "astuner", "plugin", "check", package.dist, cwd=tmp_path, executable=package.python)


def test_it_is_listed_as_ready(package: Package, python: Python, tmp_path: Path) -> None:
    listed = json.loads(python("-m", "astuner", "plugin", "list", "--json", cwd=tmp_path, executable=package.python))
    (row,) = [row for row in listed if row["dist"] == package.dist]
    assert (row["kind"], row["name"], row["problem"], row["missing"]) == (package.kind, f"acme_my_{package.kind}", None, [])


def test_the_wheel_holds_one_module_beside_its_metadata(package: Package) -> None:
    with zipfile.ZipFile(package.wheel) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    assert names == [f"acme_my_{package.kind}.py"]


def test_it_can_be_edited_where_it_lies(package: Package, python: Python, tmp_path: Path) -> None:
    install = ("-m", "uv", "pip", "install", "-q", "--python", sys.executable, "--no-index", "--no-deps", "--no-build-isolation")
    python(*install, "--target", tmp_path / "site", "-e", package.source, cwd=tmp_path)
    (link,) = (tmp_path / "site").glob("*.pth")
    assert link.read_text().strip() == str(package.source / "src")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, new: New) -> list[Path]:
    """The packages of all kinds, as they are generated."""
    home = tmp_path_factory.mktemp("sources")
    return [new(kind, f"acme-some-{kind}", home) for kind in SCAFFOLDS]


def test_ruff_finds_nothing(sources: list[Path], python: Python, tmp_path: Path) -> None:
    python("-m", "ruff", "check", "--no-cache", *sources, cwd=tmp_path)
    python("-m", "ruff", "format", "--no-cache", "--check", *sources, cwd=tmp_path)


def test_mypy_finds_nothing(sources: list[Path], python: Python, tmp_path: Path) -> None:
    settings = tmp_path / "mypy.ini"
    path = ":".join(f"{source}/src" for source in sources)
    # No scaffold names transformers, whose 3,000 modules take five times as long as all the rest; torch is not installed here.
    skipped = "[mypy-transformers.*,torch.*]\nfollow_imports = skip\nignore_missing_imports = true\n"
    settings.write_text(f"[mypy]\nstrict = true\nmypy_path = {path}\n\n{skipped}")
    files = [file for source in sources for file in source.rglob("*.py")]
    python("-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", *files, cwd=tmp_path)
