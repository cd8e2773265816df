from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.contract.errors import UsageError
from astuner.settings.config.loading import load_config
from astuner_devkit.distribution import write_distribution
from astuner_local.quickstart.template import can_draw_charts, check_free, write_project
from astuner_local.tiny.demos import TOOL_NAME, system_prompt


def _rows(project: Path, split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project / f"tasks/{split}.jsonl").read_text().splitlines()]


def _operands(rows: list[dict[str, Any]]) -> set[str]:
    return {number for row in rows for number in re.findall(r"\d+", row["main_query"])}


def test_the_project_is_whole(project: Path) -> None:
    names = {"README.md", "agent.py", "astuner.schema.json", "judge.py", "system_prompt.txt", "tasks", "tune.yaml"}
    assert names == {path.name for path in project.iterdir()}


def test_every_file_of_the_project_is_explained_in_its_readme(project: Path) -> None:
    text = (project / "README.md").read_text()
    files = [str(path.relative_to(project)) for path in project.rglob("*") if path.is_file() and path.name != "README.md"]
    assert [file for file in files if f"`{file}`" not in text] == []


def test_no_operand_and_no_answer_is_both_trained_and_validated(project: Path) -> None:
    train, validation = _rows(project, "train"), _rows(project, "validation")
    assert set() == _operands(train) & _operands(validation)
    assert set() == {row["answer"] for row in train} & {row["answer"] for row in validation}


def test_no_question_is_asked_twice(project: Path) -> None:
    rows = _rows(project, "train") + _rows(project, "validation")
    assert len(rows) == len({row["main_query"] for row in rows}) == len({row["task_id"] for row in rows})


def test_the_answers_are_right(project: Path) -> None:
    for row in _rows(project, "validation"):
        a, b = map(int, re.findall(r"\d+", row["main_query"]))
        assert str(a * b) == row["answer"]


def test_there_is_a_fresh_training_task_for_every_place_of_every_step(project: Path) -> None:
    settings = yaml.safe_load((project / "tune.yaml").read_text())["astuner"]
    needed = settings["trainer_common"]["total_training_steps"] * settings["data"]["train_batch_size"]
    assert needed == len(_rows(project, "train"))


def test_the_seed_goes_into_the_configuration_and_the_tasks(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_project(other, seed=4)
    seeds = [yaml.safe_load((directory / "tune.yaml").read_text())["astuner"]["seed"] for directory in (project, other)]
    assert seeds == [3, 4]
    assert _rows(project, "train") != _rows(other, "train")


def test_the_configuration_is_valid(project: Path) -> None:
    (project / "model").mkdir()
    loaded = load_config(project / "tune.yaml")
    assert loaded.config.backbone == "local"


@pytest.mark.parametrize(
    ("offered", "library", "can"),
    [
        ({"tensorboard": "charts:Logger"}, "astuner-core", True),
        ({"tensorboard": "charts:Logger"}, "no-such-library", False),
        ({}, "astuner-core", False),
    ],
)
def test_curves_can_be_drawn_where_the_library_for_them_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: dict[str, str], library: str, can: bool
) -> None:
    # It hides a package of this name that is installed here.
    points = {"astuner.loggers": offered}
    requires = [f'{library}; extra == "tensorboard"']
    site = write_distribution(tmp_path / "site", "astuner-loggers", entry_points=points, requires=requires)
    monkeypatch.syspath_prepend(str(site))
    assert can_draw_charts() is can


@pytest.mark.parametrize(("charts", "loggers"), [(True, ["console", "tensorboard"]), (False, ["console"])])
def test_curves_are_drawn_if_they_can_be(tmp_path: Path, charts: bool, loggers: list[str]) -> None:
    write_project(tmp_path, seed=3, charts=charts)
    assert yaml.safe_load((tmp_path / "tune.yaml").read_text())["astuner"]["trainer_common"]["logger"] == loggers


def test_editors_find_the_schema_of_the_configuration_beside_it(project: Path) -> None:
    assert (project / "tune.yaml").read_text().startswith("# yaml-language-server: $schema=astuner.schema.json\n")
    schema = json.loads((project / "astuner.schema.json").read_text())
    assert "optim" in schema["definitions"]["astuner"]["properties"]["trainer_common"]["properties"]


def test_a_plugin_that_cannot_be_imported_does_not_stop_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    points = {"astuner.judges": {"broken": "no_such_module:Judge"}}
    monkeypatch.syspath_prepend(str(write_distribution(tmp_path / "site", "acme", "1.0", {}, points)))
    project = tmp_path / "project"
    project.mkdir()
    write_project(project, seed=3)
    assert "not in astuner.schema.json: judge 'broken' from acme 1.0" in capsys.readouterr().err


def test_a_schema_that_nothing_installed_writes_is_left_out_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # It hides the package of this name that is installed here.
    monkeypatch.syspath_prepend(str(write_distribution(tmp_path / "site", "astuner-tools")))
    project = tmp_path / "project"
    project.mkdir()
    write_project(project, seed=3)
    assert not (project / "astuner.schema.json").exists()
    assert "astuner-tools, then astuner config schema --out astuner.schema.json" in capsys.readouterr().err


def test_prompt_and_tool_are_those_that_the_model_was_warmed_up_with(project: Path) -> None:
    assert system_prompt() == (project / "system_prompt.txt").read_text().strip()
    assert f'"name": "{TOOL_NAME}"' in (project / "agent.py").read_text()


def test_a_new_and_an_empty_directory_are_free(tmp_path: Path) -> None:
    check_free(tmp_path / "new")
    check_free(tmp_path)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"'notes\.txt' is in the way; name a directory that is new or empty"):
        check_free(tmp_path)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError, match="this is a file"):
        check_free(tmp_path / "notes.txt")
