"""`astuner config show`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    """A configuration whose keys are right, whatever is installed."""
    conf = tmp_path / "run.yaml"
    conf.write_text("astuner:\n  seed: 7\n  model: {path: org/model}\n  rollout: {user_workflow: './agent.py:Agent'}\n")
    return conf


def test_the_whole_configuration_is_shown_with_what_was_set(astuner: Astuner, valid: Path) -> None:
    shown = json.loads(astuner("config", "show", "--conf", str(valid), "--set", "rollout.temperature=0.5", "--json").stdout)
    assert (shown["astuner"]["seed"], shown["astuner"]["rollout"]["temperature"]) == (7, 0.5)


def test_a_configuration_is_shown_as_yaml_that_loads_again(astuner: Astuner, valid: Path, tmp_path: Path) -> None:
    shown = astuner("config", "show", "--conf", str(valid)).stdout
    assert "seed: 7" in shown
    (tmp_path / "again.yaml").write_text(shown)
    assert astuner("config", "show", "--conf", "again.yaml").stdout == shown
