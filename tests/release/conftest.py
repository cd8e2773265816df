from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution of every package, and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("published")
    for source in (REPOSITORY / "astuner-core", *sorted((REPOSITORY / "plugins").glob("astuner*"))):
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
        subprocess.run(build, check=True, timeout=300)
    return out
