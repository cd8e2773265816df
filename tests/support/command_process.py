"""The command line in a process of its own, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def astuner(tmp_path: Path) -> Astuner:
    """Runs the command line in a process of its own, as a user does; it finds what `fake_distribution` installs."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **variables}
        command = [sys.executable, "-c", "from astuner.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120, check=False)

    return run
