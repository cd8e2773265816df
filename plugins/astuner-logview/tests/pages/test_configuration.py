from __future__ import annotations

import pytest

from astuner_logview.errors import BadRequest
from astuner_logview.library import Library
from astuner_logview.pages.configuration import explain

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
