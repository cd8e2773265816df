"""The quickstart's project on real verl, over Ray, on the CPU."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from one_quickstart import one_quickstart
from quickstart_project import START_S, QuickstartProject


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker(pytest.mark.long)
        if find_spec("verl") is None:
            item.add_marker(pytest.mark.skip(reason="verl is not installed"))


class Project(QuickstartProject):
    """The project, trained with verl."""

    def train(self, *arguments: str, steps: int = 2, variables: dict[str, str] | None = None, **settings: Any) -> Any:
        """Run so many small steps."""
        ended = self.cli(*self.short("verl", steps, **settings), *arguments, timeout=START_S, **(variables or {}))
        self.said = ended
        return ended


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with its warm-started model. Not to be written to."""
    return one_quickstart(tmp_path_factory)


@pytest.fixture
def project(quickstart: Path, tmp_path: Path) -> Iterator[Project]:
    """A project to run in; after the test no process of it is left."""
    with Project.copy_beside(quickstart, tmp_path) as project:
        yield project
    _, left = psutil.wait_procs(project.list_processes(), timeout=20)
    assert [process.cmdline() for process in left] == []


def succeeded(ended: subprocess.CompletedProcess[str]) -> None:
    assert ended.returncode == 0, ended.stderr[-4000:]
