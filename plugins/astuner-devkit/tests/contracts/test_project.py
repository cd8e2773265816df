from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from astuner.contract.errors import ConfigError, UsageError
from astuner.runs.driver.launch import start_run
from astuner.runs.driver.run_request import RunRequest
from astuner.settings.config.loading import load_config
from astuner.settings.planning.plan import plan_run
from astuner.shared.install_hints import install_command
from astuner_devkit.project import write_project


def test_a_project_is_complete_for_the_checks_before_a_run(tmp_path: Path) -> None:
    plan = plan_run(write_project(tmp_path))
    assert (plan.backbone.candidate.name, plan.recipe.workflow) == ("debug", "astuner_devkit.workflows:OneTurn")


def test_a_project_runs_and_leaves_nothing_outside_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    outcome = start_run(RunRequest(conf=write_project(tmp_path / "home")))
    assert outcome.directory == tmp_path / "home/launcher_record/project.debug"
    assert list(elsewhere.iterdir()) == []


def test_settings_are_laid_over_the_yaml(tmp_path: Path) -> None:
    config = load_config(write_project(tmp_path, settings={"rollout": {"temperature": 0.5}, "seed": 9})).config
    assert (config.seed, config.rollout.temperature, config.rollout.name) == (9, 0.5, "scripted")


def test_where_an_environment_leads_there_is_no_workflow_and_no_judge(tmp_path: Path) -> None:
    config = load_config(write_project(tmp_path, settings={"rollout": {"use_agentscope_protocol": False}})).config
    assert (config.rollout.user_workflow, config.task_judge.judge_protocol) == (None, None)


def test_another_backbone_brings_its_own_engine(tmp_path: Path) -> None:
    assert load_config(write_project(tmp_path, backbone="local")).config.rollout.name == "auto"


def test_a_judge_that_nobody_has_is_refused_with_its_place(tmp_path: Path) -> None:
    conf = write_project(tmp_path, "acme-strict/strict")
    with pytest.raises(ConfigError, match=rf"{conf}:\d+: astuner.task_judge.judge_protocol: no judge 'acme-strict/strict'"):
        plan_run(conf)


def test_two_projects_of_a_directory_share_the_tokenizer(tmp_path: Path) -> None:
    write_project(tmp_path, name="one")
    written = (tmp_path / "model/tokenizer.json").stat().st_mtime_ns
    write_project(tmp_path, name="two")
    assert written == (tmp_path / "model/tokenizer.json").stat().st_mtime_ns
    assert {"one.yaml", "one.jsonl", "two.yaml", "two.jsonl", "model"} == {path.name for path in tmp_path.iterdir()}


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match=re.escape(f"needs tokenizers: {install_command('astuner-core[rollout]')}")):
        write_project(tmp_path)
