from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.loading import LoadedConfig, load_config

MINIMAL = """\
astuner:
  model:
    path: org/name
  rollout:
    user_workflow: agent->Agent
"""

Load = Callable[..., LoadedConfig]
Problems = Callable[..., tuple[Problem, ...]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a YAML; text that starts with a blank follows the five lines of a minimal configuration."""

    def write_text(text: str = "") -> Path:
        file = tmp_path / "run.yaml"
        file.write_text(MINIMAL + text if text[:1] in ("", " ") else text, encoding="utf-8")
        return file

    return write_text


@pytest.fixture
def load(write: Callable[[str], Path]) -> Load:
    def load_text(text: str = "", overrides: Sequence[str] = (), backbone: str | None = None) -> LoadedConfig:
        return load_config(write(text), overrides, backbone, names_of=lambda group: ())

    return load_text


@pytest.fixture
def problems(load: Load) -> Problems:
    def problems_of_text(text: str = "", overrides: Sequence[str] = (), backbone: str | None = None) -> tuple[Problem, ...]:
        with pytest.raises(ConfigError) as caught:
            load(text, overrides, backbone)
        return caught.value.problems

    return problems_of_text


@pytest.fixture
def problem(problems: Problems) -> Callable[..., Problem]:
    """Load what has exactly one problem, and return it."""

    def only(text: str = "", overrides: Sequence[str] = (), backbone: str | None = None) -> Problem:
        [found] = problems(text, overrides, backbone)
        return found

    return only


@pytest.fixture(autouse=True)
def importers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The installed importers: none, whatever the environment has, until a test adds one."""
    installed: list[Any] = []
    monkeypatch.setattr("astuner.settings.config.importers.entry_points", lambda group: installed)
    return installed
