from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where a test installs distributions for the commands that it runs."""
    directory = tmp_path / "site"
    directory.mkdir()
    return directory


@pytest.fixture
def astuner(site: Path, tmp_path: Path) -> Astuner:
    """Runs the command line in a process of its own, as a user does."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(site), **variables}
        command = [sys.executable, "-c", "from astuner.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    return run
