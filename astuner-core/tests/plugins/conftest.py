from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from astuner.config.model import Config
from astuner.protocols import RunInfo
from astuner.testing.distribution import write_distribution

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs real distributions for the length of a test."""
    site = tmp_path / "site"
    site.mkdir()
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(site))

    def install(
        name: str,
        version: str = "1.0",
        *,
        files: Mapping[str, str] | None = None,
        entry_points: Mapping[str, Mapping[str, str]] | None = None,
        requires: Sequence[str] = ("astuner-core>=0.1,<0.2",),
    ) -> Path:
        write_distribution(site, name, version, files or {}, entry_points or {}, requires)
        importlib.invalidate_caches()
        return site

    yield install
    sys.path[:] = path
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


@pytest.fixture
def config_dir(tmp_path: Path, install: Install) -> Path:
    """The folder of a configuration; what is imported from it is forgotten with the test."""
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def run_info(tmp_path: Path) -> RunInfo:
    return RunInfo(
        project_name="p",
        experiment_name="e",
        backbone="debug",
        directory=tmp_path / "run",
        config_dir=tmp_path,
        seed=1,
        config=Config(),
    )
