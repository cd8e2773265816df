from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from harness import Cli, environment
from one_quickstart import one_quickstart


@pytest.fixture(scope="session")
def cli() -> Cli:
    """The command line, in a process of its own."""

    def run(
        *arguments: object, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 240
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "astuner", *map(str, arguments)]
        return subprocess.run(
            command, cwd=cwd, env=environment(env), capture_output=True, text=True, timeout=timeout, check=False
        )

    return run


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `astuner quickstart --no-run` writes it, with its warm-started model. Not to be written to."""
    return one_quickstart(tmp_path_factory)


@pytest.fixture
def project(quickstart: Path, tmp_path: Path) -> Path:
    """A project of one's own to run in, over the shared model, made small: few steps, few tasks."""
    home = tmp_path / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
    (home / "model").symlink_to(quickstart / "model")
    return home
