from __future__ import annotations

from pathlib import Path

import pytest

from astuner_devkit.distribution import write_distribution
from astuner_logview.errors import BadRequest, Unanswerable
from astuner_logview.library import Library
from astuner_logview.pages.configuration import explain, read_schema_text

YAML = """astuner:
  model: {path: org/model}
  rollout: {user_workflow: "./agent.py:Agent", temprature: 0.5}
  task_reader: {dataset_file: {training: {file_path: tasks.jsonl}}}
  trainer_common: {optim: {lr: 0.1}}
"""


def test_a_yaml_with_a_mistake_is_explained_with_its_line() -> None:
    answer = explain(Library([]), {"yaml": YAML, "backbones": ["debug"]})
    assert [(one["place"], one["line"], one["remedy"]) for one in answer["problems"]] == [
        ("astuner.rollout.temprature", 3, "did you mean 'temperature'?")
    ]
    keys = {one["key"]: one for one in answer["by_backbone"]["debug"]["keys"]}
    assert (keys["model.path"]["value"], keys["model.path"]["origin"]) == ("org/model", "tune.yaml:2")
    assert (keys["trainer_common.optim.lr"]["honoured"], keys["rollout.temperature"]["origin"]) == (False, "default")


@pytest.mark.parametrize("body", [{}, {"yaml": 3}, {"yaml": "x" * 300_000}, {"yaml": "", "backbones": ["./mine.py:Mine"]}])
def test_what_is_not_a_question_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        explain(Library([]), body)


def test_an_explanation_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner_logview.pages.configuration.TIMEOUT_S", 0.001)
    with pytest.raises(Unanswerable, match=r"longer than 0\.001 s"):
        explain(Library(()), {"yaml": "astuner: {}"})


def test_a_schema_that_nothing_installed_writes_is_refused_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It hides the package of this name that is installed here.
    monkeypatch.setenv("PYTHONPATH", str(write_distribution(tmp_path, "astuner-tools")))
    read_schema_text.cache_clear()
    with pytest.raises(BadRequest, match=r"no command 'config\.schema'.*astuner-tools"):
        read_schema_text()
