from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from harness import Cli, environment


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
def quickstart(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `astuner quickstart --no-run` writes it, with its warm-started model. Not to be written to."""
    own = tmp_path_factory.getbasetemp()
    # Test processes that run beside each other wait for the first one's, since making it takes the longest.
    home = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with (home / "quickstart.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "my-agent" / "model" / "config.json").exists():
            made = cli("quickstart", "my-agent", "--no-run", cwd=home)
            assert made.returncode == 0, made.stderr
    return home / "my-agent"


@pytest.fixture
def project(quickstart: Path, tmp_path: Path) -> Path:
    """A project of one's own to run in, over the shared model, made small: few steps, few tasks."""
    home = tmp_path / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
    (home / "model").symlink_to(quickstart / "model")
    return home
