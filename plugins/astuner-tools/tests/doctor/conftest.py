from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from astuner_devkit.distribution import write_distribution
from astuner_tools.doctor.secrets import WELL_KNOWN

Doctor = Callable[..., "subprocess.CompletedProcess[str]"]
Rows = Callable[..., "dict[tuple[str, str], dict[str, str]]"]
Install = Callable[..., None]

TORCH = """
def get_num_threads():
    return 2

class version:
    cuda = None

class cuda:
    is_available = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 0)
"""
"""Answers what the doctor asks; stands before any real one, which takes seconds to import."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where a test installs distributions."""
    directory = tmp_path / "site"
    write_distribution(directory, "torch", "2.99", {"torch/__init__.py": TORCH}, {})
    return directory


@pytest.fixture
def install(site: Path) -> Install:
    def install(
        name: str,
        version: str = "1.0",
        *,
        files: Mapping[str, str] | None = None,
        entry_points: Mapping[str, Mapping[str, str]] | None = None,
        requires: Sequence[str] = ("astuner-core>=0.2,<0.3",),
    ) -> None:
        write_distribution(site, name, version, files or {}, entry_points or {}, requires)

    return install


@pytest.fixture
def doctor(site: Path, tmp_path: Path) -> Doctor:
    """Runs the command in a process of its own, without keys and clusters of this machine."""

    def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        unwanted = (*WELL_KNOWN, "RAY_ADDRESS", "PYTHONPATH")
        environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        command = [sys.executable, "-m", "astuner", "doctor", *map(str, arguments)]
        environment |= {"PYTHONPATH": str(site), **variables}
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            check=False,
            timeout=600,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def rows(doctor: Doctor) -> Rows:
    """The rows of a run of the command, by area and what."""

    def run(*arguments: object, **variables: str) -> dict[tuple[str, str], dict[str, str]]:
        found = json.loads(doctor("--json", *arguments, **variables).stdout)["rows"]
        return {(row["area"], row["what"]): row for row in found}

    return run
