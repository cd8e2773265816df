"""The quickstart's project on real verl, over Ray, on the CPU."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from astuner.testing.quickstarted import QuickstartedProject

START_S = 500


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and find_spec("verl") is None:
            item.add_marker(pytest.mark.skip(reason="verl is not installed"))


class Project(QuickstartedProject):
    """The project, trained with verl."""

    def short(self, steps: int, **settings: Any) -> list[str]:
        """Return the command line of a run of so many small steps; double underscores stand for dots."""
        chosen = {
            "data.train_batch_size": 3,
            "rollout.num_repeat": 4,
            "trainer_common.total_training_steps": steps,
            "trainer_common.val_before_train": "false",
            "trainer_common.optim.lr_scheduler_type": "constant",
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        pairs = [f"--set={key}={value}" for key, value in chosen.items()]
        return ["run", "--conf", "tune.yaml", "--backbone", "verl", *pairs]

    def train(self, *arguments: str, steps: int = 2, variables: dict[str, str] | None = None, **settings: Any) -> Any:
        """Run so many small steps."""
        ended = self.cli(*self.short(steps, **settings), *arguments, timeout=START_S, **(variables or {}))
        self.said = ended
        return ended

    def processes(self) -> list[psutil.Process]:
        """Return what lives of runs of this project, by the state directory in its environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("ASTUNER_STATE_DIR") == str(self.state):
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with its warm-started model. Not to be written to."""
    return Project.make(tmp_path_factory.mktemp("quickstart"))


@pytest.fixture
def project(quickstart: Path, tmp_path: Path) -> Iterator[Project]:
    """A project to run in; after the test no process of it is left."""
    with Project.beside(quickstart, tmp_path) as project:
        yield project
    _, left = psutil.wait_procs(project.processes(), timeout=20)
    assert [process.cmdline() for process in left] == []


def succeeded(ended: subprocess.CompletedProcess[str]) -> None:
    assert ended.returncode == 0, ended.stderr[-4000:]
