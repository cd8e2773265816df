from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from astuner.contract.protocols import RunInfo
from astuner_devkit.isolation import undo_after
from astuner_devkit.run_infos import run_info as made_up

Install = Callable[..., Path]


@pytest.fixture
def install(fake_distribution: Install) -> Install:
    """Installs real distributions for the length of a test, made for this core unless the test says otherwise."""
    return partial(fake_distribution, requires=("astuner-core>=0.2,<0.3",))


@pytest.fixture
def config_dir(tmp_path: Path, install: Install) -> Iterator[Path]:
    """The folder of a configuration; what is imported from it is forgotten with the test."""
    directory = tmp_path / "project"
    directory.mkdir()
    with undo_after(tmp_path):
        yield directory


@pytest.fixture
def run_info(tmp_path: Path) -> RunInfo:
    return made_up(tmp_path)
