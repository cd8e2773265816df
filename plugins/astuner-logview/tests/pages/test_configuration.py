from __future__ import annotations

import json
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


TAKEN = {
    "experiment_name": "run-${oc.env:PLANTED_1}",
    "project_name": "${ oc.env : PLANTED_2 }",
    "seed": "${oc.decode:${oc.env:PLANTED_NUMBER}}",
    "experiment_dir": "${astuner.task_judge.mine.b}/x",
    "model": {"path": "${oc.env:PLANTED_PATH}"},
    "rollout": {"temperature": "${oc.env:PLANTED_3}", "user_workflow": "${oc.env:${.name}}", "name": "PLANTED_4"},
    "services": {"web": {"command": ["${oc.env:PLANTED_5}"], "env": {"A": "${oc.env:MY_API_KEY}"}, "cwd": "${oc.env:HOME}"}},
    "task_judge": {
        "mine": {
            "a": "${${.resolver}:PLANTED_6}",
            "b": "${oc.env:'PLANTED_7'}",
            "c": "${astuner.${oc.env:PLANTED_8}}",
            "d": "${oc.select:${oc.env:PLANTED_9}}",
            "e": "${oc.create:${oc.env:PLANTED_SECTION}}",
            "resolver": "oc.env",
            "guess": "planted10value",
        }
    },
    "trainer_common": {"optim": {"lr_scheduler_type": "${oc.env:PLANTED_11}"}},
}


def test_no_environment_variable_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(36):
        monkeypatch.setenv(f"PLANTED_{number}", f"planted{number}value")
    others = {"NUMBER": "4815162342", "PATH": "/planted/path", "SECTION": "{plantedname: plantedvalue}"}
    for name, value in {f"PLANTED_{name}": value for name, value in others.items()}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MY_API_KEY", "planted10value")
    answer = explain(Library([]), {"yaml": json.dumps({"astuner": TAKEN}), "backbones": ["debug"]})
    shown = json.dumps({**answer, "yaml": None})
    # A guess at a value is not confirmed.
    assert [sign for sign in ("planted", "4815162342") if sign in shown.replace('"planted10value"', "")] == []
    keys = {one["key"]: (one["value"], one["origin"]) for one in answer["by_backbone"]["debug"]["keys"]}
    assert keys["task_judge.mine.guess"][0] == "planted10value"
    assert keys["rollout.temperature"] == ("${oc.env:PLANTED_3}", "tune.yaml:1")
    assert keys["experiment_name"] == ("run-${oc.env:PLANTED_1}", "tune.yaml:1")
    assert not [one for one in answer["problems"] if "oc.env" in one["message"]]


def test_whether_a_path_exists_is_not_said(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8, "base_model_name_or_path": "x/y"}')
    (tmp_path / "there" / "own.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\nclass Own: pass\n")

    def ask(place: Path) -> str:
        text = (
            f"astuner:\n  backbone: {place}/own.py:Own\n  model: {{path: {place}}}\n"
            f"  services: {{web: {{command: x, cwd: {place}}}}}\n"
            f"  rollout: {{name: {place}/own.py:Own, user_workflow: {place}/own.py:Own}}\n"
            f"  task_reader: {{type: dataset_file, dataset_file: {{training: {{file_path: {place}/own.py}}}}}}\n"
        )
        answers = [explain(Library([]), {"yaml": text, "backbones": names}) for names in ([], ["debug"])]
        return json.dumps(answers).replace(str(place), "PLACE")

    assert ask(tmp_path / "there") == ask(tmp_path / "elsewhere")
    assert not (tmp_path / "imported").exists()


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
