"""Where a resumed run begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from astuner.cli.run import run
from astuner.contract.errors import ConfigError, UsageError
from astuner.runs.driver.resume import check_same_run
from astuner.runs.driver.start_step import StartStep, choose_start
from astuner.runs.store.checkpoints import begin_checkpoint, finish_checkpoint, record_validation
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.manifest import DamagedCheckpoint
from astuner.settings.config.show import sign_variables, to_yaml
from astuner.settings.planning.plan import Plan, plan_run

RUN: dict[str, Any] = {
    "model": {"path": "./model"},
    "rollout": {
        "user_workflow": "./agent.py:Agent",
        "name": "openai",
        "openai": {"base_url": "http://127.0.0.1:1/v1", "model": "x"},
    },
    "task_reader": {"type": "dataset_file", "dataset_file": {"training": {"file_path": "train.jsonl"}}},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose run has the checkpoints 2, 4 and 6, the second one the best."""
    home = tmp_path / "project"
    (home / "model").mkdir(parents=True)
    (home / "model" / "config.json").write_text("{}")
    (home / "train.jsonl").write_text('{"main_query": "1 + 1"}\n')
    (home / "agent.py").write_text("class Agent:\n    async def execute(self, workflow_task, tuner): ...\n")
    (home / "run.yaml").write_text(yaml.safe_dump({"astuner": RUN}))
    directory = RunDirectory(home / "run")
    directory.path.mkdir()
    directory.checkpoints.mkdir()
    loaded = plan(home).loaded
    directory.write_config(
        given="", resolved=to_yaml(loaded), native={}, environment=sign_variables(loaded), relative_to=loaded.directory
    )
    for step in (2, 4, 6):
        (begin_checkpoint(directory, step) / "state.json").write_text(json.dumps({"step": step}))
        finish_checkpoint(directory, step)
        record_validation(directory, step, "val/reward/mean", {2: 0.1, 4: 0.9, 6: 0.5}[step])
    return home


def plan(home: Path) -> Plan:
    return plan_run(home / "run.yaml", ())


def damage(home: Path, step: int) -> None:
    (home / "run" / "checkpoints" / f"step_{step}" / "state.json").write_text(json.dumps({"step": 0}))


@pytest.mark.parametrize(("name", "step"), [(None, 6), ("last", 6), ("best", 4), ("2", 2), ("6", 6)])
def test_a_run_continues_from_the_checkpoint_that_is_named(project: Path, name: str | None, step: int) -> None:
    start = choose_start(RunDirectory(project / "run"), plan(project), resume=True, resume_from=name)
    assert (start.step, start.resumed, start.replay_after) == (step, True, step)


@pytest.mark.parametrize("name", [None, "last"])
def test_the_last_checkpoint_is_the_last_intact_one(project: Path, name: str | None) -> None:
    damage(project, 6)
    start = choose_start(RunDirectory(project / "run"), plan(project), resume=True, resume_from=name)
    assert start.step == 4
    assert "step_6/state.json: damaged" in start.notices[0]


@pytest.mark.parametrize("name", ["best", "4"])
def test_a_damaged_checkpoint_that_was_asked_for_is_refused(project: Path, name: str) -> None:
    damage(project, 4)
    with pytest.raises(DamagedCheckpoint, match="step_6 is intact: use that one"):
        choose_start(RunDirectory(project / "run"), plan(project), resume=True, resume_from=name)


def test_a_checkpoint_that_does_not_exist_is_answered_with_those_that_do(project: Path) -> None:
    with pytest.raises(UsageError, match="no checkpoint '3'; there are best, last and 2, 4, 6"):
        choose_start(RunDirectory(project / "run"), plan(project), resume=True, resume_from="3")


def test_a_new_run_has_nothing_to_go_back_to(project: Path) -> None:
    with pytest.raises(UsageError, match=r"--resume-from 3: .* holds no checkpoint yet"):
        choose_start(RunDirectory(project / "new"), plan(project), resume=True, resume_from="3")


def test_going_back_puts_later_checkpoints_and_validations_out_of_the_way(project: Path) -> None:
    directory = RunDirectory(project / "run")
    start = choose_start(directory, plan(project), resume=True, resume_from="2")
    start.leave_later(directory)
    assert directory.list_saved_steps() == [2]
    assert [*directory.state["validations"]] == ["2"]
    assert sorted(path.name for path in directory.checkpoints.glob("aside_*")) == ["aside_4", "aside_6"]


def test_a_finished_run_can_go_back_and_cannot_go_on(project: Path) -> None:
    directory = RunDirectory(project / "run")
    directory.write_state(status="finished")
    assert choose_start(directory, plan(project), resume=True, resume_from="2").step == 2
    with pytest.raises(UsageError, match=r"this run is finished; .*--resume-from 2"):
        choose_start(directory, plan(project), resume=True)


def test_paths_are_compared_as_seen_from_the_yaml(project: Path) -> None:
    moved = project.rename(project.with_name("moved"))
    check_same_run(RunDirectory(moved / "run"), plan(moved))
    document = yaml.safe_load((moved / "run.yaml").read_text())
    (moved / "other").mkdir()
    document["astuner"]["model"]["path"] = "./other"
    (moved / "run.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=r"astuner\.model\.path: was "):
        check_same_run(RunDirectory(moved / "run"), plan(moved))


def test_accepting_changes_is_about_resuming() -> None:
    refused = CliRunner().invoke(run, ["--conf", "run.yaml", "--accept-changes", "data"])
    assert isinstance(refused.exception, UsageError)
    assert "add --resume" in str(refused.exception)


def test_what_a_killed_save_has_left_is_deleted_and_named(project: Path) -> None:
    left = begin_checkpoint(RunDirectory(project / "run"), 7)
    (left / "model.safetensors").write_bytes(bytes(3_200_000))
    assert StartStep(step=6, resumed=True).leave_later(RunDirectory(project / "run")) == ["writing_7 (3.2 MB)"]
    assert not left.exists()
