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
    for source in (REPOSITORY / "astuner-core", *sorted((REPOSITORY / "plugins").glob("astuner*"))):
        build = [sys.executable, "-m", "uv", "build", "-q", "--wheel", "--no-build-isolation", "--python", sys.executable]
        subprocess.run([*build, "--out-dir", str(out), str(source)], check=True, timeout=300)
    return out
