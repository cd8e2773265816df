from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution of every package, and the wheel that is built from it, as a release builds them."""
    out = tmp_path_factory.mktemp("published")
    subprocess.run([sys.executable, str(REPOSITORY / "scripts" / "build_packages.py"), str(out)], check=True, timeout=1200)
    return out
