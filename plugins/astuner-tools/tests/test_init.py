"""`astuner init`: what it writes, asks and refuses. Projects with the frameworks themselves are played in tests/new_projects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astuner.settings.planning.plan import plan_run
from astuner_tools.new_projects.template import JUDGES, fill_project, read_frameworks, write_project

FILES = ["agent.py", "judge.py", "replies.jsonl", "shop.py", "tasks/train.jsonl", "tasks/validation.jsonl", "tune.yaml"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks takes the standard input for a terminal."""
    monkeypatch.setattr("astuner_tools.new_projects.command.is_terminal", lambda: True)


def test_without_a_terminal_nothing_is_asked(cli: Any, tmp_path: Path) -> None:
    ended = cli("init", str(tmp_path / "shop"))
    assert ended.code == 0
    assert sorted(str(path.relative_to(tmp_path / "shop")) for path in (tmp_path / "shop").rglob("*.*")) == FILES
    assert "astuner run --conf tune.yaml" in ended.out


def test_at_a_terminal_what_is_not_given_is_asked(
    cli: Any, tmp_path: Path, terminal: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["http", "math"])
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))
    assert cli("init", str(tmp_path / "shop")).code == 0
    assert (tmp_path / "shop" / "agent.py").read_text() == fill_project("http", "math", "shop")["agent.py"]
    assert not (tmp_path / "shop" / "judge.py").exists()


def test_yes_asks_nothing_at_a_terminal(cli: Any, tmp_path: Path, terminal: None) -> None:
    assert cli("init", str(tmp_path / "shop"), "--yes").code == 0
    assert (tmp_path / "shop" / "agent.py").read_text() == fill_project("openai", "code", "shop")["agent.py"]


def test_nothing_is_overwritten(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("mine")
    ended = cli("init", str(tmp_path))
    assert ended.code == 2
    assert "this holds files, and nothing is overwritten" in ended.err
    assert (tmp_path / "agent.py").read_text() == "mine"
    assert "this is a file" in cli("init", str(tmp_path / "agent.py")).err


def test_an_environment_takes_no_judge(cli: Any, tmp_path: Path) -> None:
    ended = cli("init", str(tmp_path / "game"), "--with", "environment", "--judge", "math")
    assert ended.code == 2
    assert "leave --judge out" in ended.err
    assert not (tmp_path / "game").exists()


def test_a_missing_framework_is_named_with_its_packages(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner_tools.new_projects.template.find_spec", lambda _: None)
    ended = cli("init", str(tmp_path / "crew"), "--with", "smolagents")
    assert "pip install 'smolagents[openai]'" in ended.out


@pytest.mark.parametrize("name", read_frameworks())
def test_the_code_of_a_project_compiles(name: str) -> None:
    sources = {path: text for path, text in fill_project(name, "code", "shop").items() if path.endswith(".py")}
    assert sources
    for path, text in sources.items():
        compile(text, path, "exec")


@pytest.mark.parametrize("directory", ["shop", "a b", "ünï: 'cödé'"])
def test_a_configuration_is_valid_whatever_the_directory_is_called(directory: str, tmp_path: Path) -> None:
    write_project(tmp_path / directory, "openai", "code")
    plan = plan_run(tmp_path / directory / "tune.yaml")
    assert plan.loaded.config.experiment_name == directory
    assert plan.recipe.engine is not None
    assert plan.recipe.engine.candidate.name == "scripted"


def test_every_judge_has_its_section() -> None:
    sections = [fill_project("openai", judge, "shop")["tune.yaml"].partition("task_judge:")[2][:40] for judge in JUDGES]
    assert len({*sections}) == len(JUDGES)
