from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import install


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the command of a program from npm: installed by tox for all, or here."""
    folder = Path(os.environ.get("ASTUNER_CODING_AGENTS") or tmp_path_factory.mktemp("agents"))

    def find(name: str) -> Path:
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed")
        return install(name, folder)

    return find
