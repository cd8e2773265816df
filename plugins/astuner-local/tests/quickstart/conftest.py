from __future__ import annotations

from pathlib import Path

import pytest

from astuner_local.quickstart.template import write_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project without its model."""
    directory = tmp_path / "project"
    directory.mkdir()
    write_project(directory, seed=3)
    return directory
