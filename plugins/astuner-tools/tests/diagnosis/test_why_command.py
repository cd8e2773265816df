"""`astuner why`: what it prints for people, and as JSON, of runs in any state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sick_runs import CONFIG, GOOD, SICK, differ, leave_unjudged, play

from astuner.runs.store.directory import RunDirectory
from astuner_devkit.command_line import CommandResult
from astuner_tools.diagnosis.run_watch import describe_run

Cli = Callable[..., CommandResult]


@pytest.fixture
def collapsed(write_run: Any) -> Path:
    record = SICK["collapse"]()
    return write_run("a", rows=record.rows, episodes=record.episodes, settings=CONFIG)


@pytest.fixture
def healthy(write_run: Any) -> Path:
    return write_run("good", rows=GOOD, episodes=play(20, differ), settings=CONFIG)


@pytest.mark.usefixtures("collapsed")
def test_a_finding_has_its_numbers_episodes_key_and_page(cli: Cli):
    found = cli("why", "a")
    lines = found.out.splitlines()
    assert found.code == 0
    assert lines[0].startswith(
        "1. the answers have collapsed: in 100% of the last groups all siblings answer word for word the same"
    )
    assert lines[1] == "   change:  trainer_common.optim.lr: 3.3e-06"
    assert lines[3] == "   look at: train/9/task-0/0   astuner episodes a --split train --step 9 --task task-0"
    assert lines[4].startswith("   look at: train/9/task-0/1 ")
    assert lines[5] == "   more:    docs/why.md#the-answers-collapse"
    assert "sometimes solved" not in found.out


@pytest.mark.usefixtures("collapsed")
def test_the_command_that_a_finding_names_shows_its_episodes(cli: Cli):
    line = next(line for line in cli("why", "a").out.splitlines() if "look at" in line)
    shown = cli(*line.split("astuner ", 1)[1].split())
    assert (shown.code, shown.out.count("stand 0")) == (0, 4)


@pytest.mark.usefixtures("collapsed")
def test_json_has_the_same_findings(cli: Cli):
    found = json.loads(cli("why", "a", "--json").out)
    assert (found["run"], found["steps"], found["problems"]) == ("a", 9, [])
    assert [one["id"] for one in found["findings"]] == ["collapse"]
    assert found["findings"][0]["numbers"]["alike"] == 1.0


@pytest.mark.usefixtures("healthy")
def test_nothing_stands_out_in_a_healthy_run(cli: Cli):
    found = cli("why", "good")
    assert (found.code, found.out) == (0, "nothing stands out: 27 rules looked at 20 steps; docs/why.md lists them\n")
    assert json.loads(cli("why", "good", "--json").out)["findings"] == []


def test_a_run_that_has_only_begun_says_so(cli: Cli, write_run: Any):
    write_run("a", status=None)
    found = cli("why", "a")
    assert (found.code, found.out) == (0, "nothing stands out: no training step is recorded yet\n")


def test_a_run_that_failed_in_its_first_step_is_told_by_its_episodes(cli: Cli, write_run: Any):
    write_run("a", episodes=play(1, differ, change=leave_unjudged), status="failed")
    assert cli("why", "a").out.startswith("1. the judge fails: the judge failed on 32 of the last 32 episodes")


def test_a_damaged_run_is_read_as_far_as_it_goes(cli: Cli, collapsed: Path):
    for name in ("metrics.jsonl", "episodes/train.jsonl"):
        file = collapsed / name
        file.write_text("{nonsense\n" + file.read_text() + '{"step": 10, "ki')
    for name in ("config.yaml", "run.json", "state.json"):
        (collapsed / name).write_text("{")
    found = cli("why", "a")
    assert found.code == 0
    assert found.out.startswith("1. the answers have collapsed")
    assert "metrics.jsonl:1" in found.err


def test_a_run_is_read_while_another_process_holds_it(cli: Cli, collapsed: Path):
    held = RunDirectory(collapsed)
    held.open()
    assert cli("why", "a").out.startswith("1. the answers have collapsed")
    held.close()


def test_a_directory_that_is_not_a_run_is_an_error(cli: Cli, tmp_path: Path):
    assert cli("why", str(tmp_path)).code == 2


def test_a_run_says_the_first_finding_in_a_line(collapsed: Path, healthy: Path):
    line = describe_run(collapsed, "launcher_record/a")
    assert line is not None
    assert line.startswith("the answers have collapsed: ")
    assert line.endswith("Change trainer_common.optim.lr: 3.3e-06; `astuner why launcher_record/a` says more")
    assert describe_run(healthy, "launcher_record/good") is None
