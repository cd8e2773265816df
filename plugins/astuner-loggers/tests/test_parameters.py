"""The configuration as a tracker gets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.settings.config.loading import load_config
from astuner_devkit.run_infos import run_info
from astuner_loggers.parameters import build_parameters

YAML = """\
astuner:
  model: {path: org/name}
  rollout: {user_workflow: "agent->Agent"}
  services:
    scorer: {command: "python -m serve --password hunter3pw --auth Bearer-abc123def456 --note ${oc.env:MY_NOTE}"}
  task_judge:
    llm:
      note: ${oc.env:MY_NOTE}
      extra: {extra_headers: {Authorization: Bearer abcdef123456, Cookie: session=abc12345678}}
"""


@pytest.fixture
def parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("MY_NOTE", "a-note-of-mine")
    (tmp_path / "run.yaml").write_text(YAML)
    loaded = load_config(tmp_path / "run.yaml")
    return build_parameters(evolve(run_info(tmp_path), config=loaded.config, from_environment=loaded.from_environment))


def test_what_logs_in_does_not_reach_a_tracker(parameters: dict[str, Any]) -> None:
    secrets = ("hunter3pw", "abc123def456", "abcdef123456", "abc12345678")
    assert [secret for secret in secrets if secret in json.dumps(parameters)] == []


def test_a_value_of_the_environment_reaches_a_tracker_by_its_name(parameters: dict[str, Any]) -> None:
    assert parameters["task_judge"]["llm"]["note"] == "${oc.env:MY_NOTE}"
    assert "a-note-of-mine" not in json.dumps(parameters)


def test_everything_else_does(parameters: dict[str, Any]) -> None:
    assert parameters["trainer_common"]["optim"]["lr"] == 1e-6
