from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.shared.processes import ProgramHandle, ProgramSpec, launch


@pytest.fixture(autouse=True)
def _state(own_state: Path) -> None:
    """Each test here has a state of its own."""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., ProgramHandle]:
    """Starts a line of shell, or of Python where `python=` gives it, as a service."""

    def make(shell: str = "sleep 60", *, python: str | None = None, name: str = "one", **more: Any) -> ProgramHandle:
        command = [sys.executable, "-c", python] if python is not None else ["/bin/sh", "-c", shell]
        return launch(ProgramSpec(command=command, **{"kind": "service", "name": name, "log": tmp_path / f"{name}.log", **more}))

    return make
