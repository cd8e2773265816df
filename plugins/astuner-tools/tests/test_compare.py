"""`astuner compare`: what it prints for people, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from astuner.contract.schema import GREEDY
from astuner.runs.inspection.run import Run
from astuner_devkit.command_line import CommandResult
from astuner_devkit.episodes import episode
from astuner_tools.diagnosis.run_record import read_run_record
from astuner_tools.task_scores import score_tasks

Cli = Callable[..., CommandResult]


def row(step: int, reward: float) -> dict[str, Any]:
    return {"step": step, "kind": "train", "reward/mean": reward, "time/step_s": 40.0, "tokens/generated": 1000.0}


@pytest.fixture
def two(write_run) -> None:
    def validate(task: str, *successes: bool) -> list[Any]:
        made = [
            episode(repeat, float(success), task=task, step=4, split="validation", success=success)
            for repeat, success in enumerate(successes)
        ]
        return [*made, episode(0, 0.0, task=task, step=0, split="validation", success=False)]

    shared = {"model": {"path": "m"}, "trainer_common": {"optim": {"lr": 0.1}}}
    first = [*validate("better", True, False), *validate("worse", True, True), *validate("same", True)]
    write_run("a", settings=shared, rows=[row(1, 0.0), row(2, 1.0)], episodes=first)
    changed = {**shared, "trainer_common": {"optim": {"lr": 0.2}}, "experiment_name": "b"}
    second = [*validate("better", True, True), *validate("worse", False, True), *validate("same", True), *validate("new", True)]
    write_run("b", settings=changed, rows=[row(1, 0.5), row(2, 0.25)], episodes=second)


@pytest.mark.usefixtures("two")
def test_compared_runs_show_keys_metrics_and_tasks(cli: Cli):
    lines = cli("compare", "a", "b").out.splitlines()
    assert lines[1].split() == ["a", "finished", "2", "0.000", "->", "1.000", "-", "1", "min", "20", "s", "2,000", "0", "MB"]
    assert lines[4:7] == [
        "1 difference of configuration",
        "KEY                      a    b",
        "trainer_common.optim.lr  0.1  0.2",
    ]
    assert lines[8:11] == [
        "METRIC           a       b",
        "reward/mean      0 -> 1  0.5 -> 0.25",
        "val/reward/mean  -       -",
    ]
    assert lines[-4:] == [
        "success of each validation task: b is better in 1 and worse in 1 than a, equal in 1; 1 that not all played left out",
        "TASK    a    b    CHANGE",
        "worse   1    0.5  -0.5",
        "better  0.5  1    +0.5",
    ]


@pytest.mark.usefixtures("two")
def test_a_comparison_is_a_document(cli: Cli):
    document = json.loads(cli("compare", "a", "b", "--json", "--metric", "reward/mean").out)
    assert document["configuration"] == [{"key": "trainer_common.optim.lr", "values": [0.1, 0.2]}]
    assert document["curves"] == {"reward/mean": [[[1, 0.0], [2, 1.0]], [[1, 0.5], [2, 0.25]]]}
    assert {one["task"]: one["scores"] for one in document["tasks"]} == {
        "worse": [1.0, 0.5],
        "better": [0.5, 1.0],
    }
    assert (document["split"], document["measure"]) == ("validation", "success")
    assert (document["same_tasks"], document["apart_tasks"]) == (1, 1)


def test_rewards_are_compared_where_success_is_unknown(write_run, cli: Cli):
    write_run("a", episodes=[episode(0, 0.5), episode(1, 1.0)])
    write_run("b", episodes=[episode(0, 0.5), episode(1, 0.0)])
    document = json.loads(cli("compare", "a", "b", "--json").out)
    assert (document["measure"], document["split"]) == ("reward", "train")
    assert document["tasks"] == [{"task": "t", "scores": [0.75, 0.25]}]


def test_one_run_alone_is_not_compared(cli: Cli):
    shown = cli("compare", "a")
    assert (shown.code, shown.err) == (2, "error: astuner compare: name two runs or more; `astuner runs` lists them\n")


def test_the_help_has_examples(cli: Cli):
    assert "\n    astuner compare" in cli("compare", "--help").out.partition("Examples:")[2]


def test_greedy_siblings_are_no_answers_of_a_task(write_run) -> None:
    path = write_run("a", episodes=[episode(0, 1.0, success=True), episode(GREEDY, 0.0, success=False)])
    found = score_tasks(Run(path), "train")["t"]
    assert (found.reward, found.rewarded, found.successes, found.decided) == (1.0, 1, 1, 1)


def test_a_diagnosis_reads_no_greedy_siblings(write_run) -> None:
    path = write_run("a", rows=[row(1, 0.0)], episodes=[episode(0, 1.0), episode(1, 1.0), episode(GREEDY, 0.0)])
    assert [one.repeat for one in read_run_record(Run(path)).episodes] == [0, 1]
