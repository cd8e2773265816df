from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness import REPOSITORY


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of every package."""
    out = tmp_path_factory.mktemp("published")
    build = [sys.executable, str(REPOSITORY / "scripts" / "build_packages.py"), str(out), "--wheels"]
    subprocess.run(build, check=True, timeout=1200)
    return out
