from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _state(own_state: Path) -> None:
    """Each test here has a state of its own."""
