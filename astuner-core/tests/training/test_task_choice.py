"""A sampler hears what groups have shown, chooses the next tasks, and knows the same after a resume."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import choosing_parts
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.errors import AstunerError, ConfigError, PluginError
from astuner.contract.schema import Group, Task
from astuner.runs.driver.launch import start_run
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.metric_rows import read_metric_rows
from astuner.runs.training.task_choice import STATE, TaskChoice
from astuner_devkit import run_info
from astuner_devkit.episodes import episode, group
from astuner_devkit.project import write_project
from astuner_devkit.run_in_process import PlayedRun, add_recorder, read_run

PARTS = choosing_parts.__file__
NAMES = [f"{kind}{number}" for number in range(4) for kind in ("half", "none")]
TASKS = [{"task_id": name, "main_query": f"{name}?", "answer": "4"} for name in NAMES]
BACKBONES = pytest.mark.parametrize("backbone", ["Serving", "Overlapping"])

ORDER = """
none0 half1
none2 none3
half3 half0
none1 half2
half2 half0
none3 none0
half1 half3
none1 none2
"""
"""Of the default seed. No version may change it, for runs that began with it go on."""


def settings(sampler: str | None = "Learnable", *, steps: int = 8, **trainer: Any) -> dict[str, Any]:
    data = {"train_batch_size": 2} | ({} if sampler is None else {"sampler": f"{PARTS}:{sampler}"})
    return {
        "data": data,
        "rollout": {"name": "scripted", "scripted": {"replies": ["4"]}, "num_repeat": 2},
        "trainer_common": {"total_training_steps": steps, "val_before_train": False, "test_freq": -1, "save_freq": 2, **trainer},
    }


def play(run: Any, backbone: str, sampler: str | None = "Learnable", **more: Any) -> PlayedRun:
    return run(f"{PARTS}:Halves", tasks=TASKS, backbone=f"{PARTS}:{backbone}", settings=settings(sampler, **more))


def list_steps(played: PlayedRun) -> list[list[str]]:
    """Return the ids of each step."""
    last = max(found.step for found in played.groups)
    return [[found.task.task_id for found in played.groups if found.step == step] for step in range(1, last + 1)]


def read_state(directory: Path, step: int) -> Any:
    (state,) = [
        value for key, value in json.loads(read_text(directory, step)).items() if key.endswith(("Learnable", "OtherSampler"))
    ]
    return state


def read_text(directory: Path, step: int) -> str:
    return (RunDirectory(directory).checkpoint(step) / STATE).read_text()


@BACKBONES
def test_the_choice_follows_what_the_groups_have_shown(run: Any, backbone: str) -> None:
    steps = list_steps(play(run, backbone))
    found = [step for step, tasks in enumerate(steps) if all(task.startswith("half") for task in tasks)]
    first = next(index for index, _ in enumerate(steps) if len({t for s in steps[: index + 1] for t in s if t[0] == "h"}) >= 2)
    # From the step after two such tasks are known, nothing else is played.
    assert set(range(first + 1, 8)) <= set(found)
    assert len(steps) == 8


@BACKBONES
def test_a_checkpoint_knows_the_steps_before_it_and_no_later_one(run: Any, backbone: str) -> None:
    played = play(run, backbone)
    for step in (2, 4, 6, 8):
        assert read_state(played.directory, step)["seen"] == list_steps(played)[:step]


@BACKBONES
@pytest.mark.parametrize("crash", [1, 4, 5, 8])
def test_a_run_that_is_cut_short_goes_on_with_the_same_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any, backbone: str, crash: int
) -> None:
    whole = play(run, backbone)
    conf = write_project(
        tmp_path / "cut",
        f"{PARTS}:Halves",
        tasks=TASKS,
        backbone=f"{PARTS}:{backbone}",
        settings=add_recorder(settings()),
        name="cut",
    )
    observe = TaskChoice.observe

    def crash_once(self: TaskChoice, step: int, groups: Sequence[Group]) -> None:
        if step == crash:
            raise OSError("cut")
        observe(self, step, groups)

    with monkeypatch.context() as patched:
        patched.setattr(TaskChoice, "observe", crash_once)
        with pytest.raises((OSError, AstunerError), match="cut"):
            start_run(RunRequest(conf=conf))
    resumed = read_run(start_run(RunRequest(conf=conf, resume=True)).directory)
    for step in (2, 4, 6, 8):
        one, two = (read_text(directory, step) for directory in (whole.directory, resumed.directory))
        assert one == two
    assert metric_rows(whole) == metric_rows(resumed)


def metric_rows(played: PlayedRun) -> list[dict[str, Any]]:
    rows = read_metric_rows(RunDirectory(played.directory).metrics).rows
    return [{name: value for name, value in row.items() if name.startswith(("sampler/", "reward/", "step"))} for row in rows]


def test_the_metrics_count_each_task_once(run: Any) -> None:
    played = play(run, "Serving", steps=3)
    last: dict[str, float] = {}
    for tasks, row in zip(list_steps(played), metric_rows(played), strict=True):
        last |= {task: 0.5 if task.startswith("half") else 0.0 for task in tasks}
        assert row["sampler/tasks_seen"] == len(last) / len(TASKS)
        assert row["sampler/success_rate"] == sum(last.values()) / len(last)


def test_groups_that_replace_those_without_signal_are_others_and_count_too(run: Any) -> None:
    played = play(run, "Serving", steps=3, algorithm={"filter_groups": {"enable": True, "max_num_gen_batches": 3}})
    for tasks in read_state(played.directory, 3)["seen"]:
        assert len(set(tasks)) == len(tasks)
        assert sum(task.startswith("half") for task in tasks) >= 2 or len(tasks) == 6
    assert any(len(tasks) > 2 for tasks in read_state(played.directory, 3)["seen"])


def test_the_default_keeps_the_order_of_the_tasks_and_leaves_nothing_in_checkpoints(run: Any) -> None:
    default, named = (
        play(run, "Serving", None),
        run(
            f"{PARTS}:Halves",
            tasks=TASKS,
            backbone=f"{PARTS}:Serving",
            settings=settings(None) | {"data": {"train_batch_size": 2, "sampler": "uniform"}},
        ),
    )
    assert list_steps(default) == list_steps(named) == [line.split() for line in ORDER.strip().splitlines()]
    assert not (RunDirectory(default.directory).checkpoint(8) / STATE).exists()
    assert not [name for name in default.metrics if name.startswith("sampler/")]


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        ("Twice", r"Twice\): choose\(draw, state\) returned \['half0', 'half0'\]; 2 different ids of draw.tasks are expected"),
        ("Raising", r"Raising\) could not choose tasks: KeyError: 'lost'"),
        ("OfSets", r"OfSets\) could not take the groups of step 1: TypeError: Object of type set"),
        ("Unfinished", r"Unfinished\) has no method `choose\(draw, state\)`"),
    ],
)
def test_a_sampler_that_is_wrong_ends_the_run_and_is_named(run: Any, sampler: str, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        play(run, "Serving", sampler)


class Component:
    """What a recipe has of a sampler."""

    def __init__(self, target: str = "acme:Learnable") -> None:
        self.candidate, self.options = SimpleNamespace(blame="sampler 'acme'", target=target), None


def open_choice(tmp_path: Path, ids: Sequence[str] = NAMES, *, target: str = "acme:Learnable", step: int = 0) -> TaskChoice:
    tasks = [Task(main_query="?", task_id=task) for task in ids]
    info = run_info(tmp_path)
    info = evolve(info, config=evolve(info.config, data=evolve(info.config.data, train_batch_size=2)))
    hooks = SimpleNamespace(make_sampler=lambda *_: choosing_parts.Learnable())
    parts: Any = (SimpleNamespace(first=lambda _: tasks), SimpleNamespace(sampler=Component(target)))
    control: Any = SimpleNamespace(hooks=hooks, resume_step=step)
    return TaskChoice.open(info, *parts, control)


@given(st.randoms(use_true_random=False))
def test_the_order_in_which_groups_end_changes_nothing(tmp_path_factory: pytest.TempPathFactory, rng: Random) -> None:
    home = tmp_path_factory.mktemp("order")
    one, two = open_choice(home), open_choice(home)
    for step in range(1, 4):
        played = [task.task_id for task in one.batch(step)] + [task.task_id for task in one.batch(step, 1)]
        assert played == [task.task_id for task in two.batch(step)] + [task.task_id for task in two.batch(step, 1)]
        groups = [group(episode(0, 1.0, task=task, step=step, success=task.startswith("half"))) for task in played]
        one.observe(step, groups)
        two.observe(step, rng.sample(groups, len(groups)))
        assert one.known[step] == two.known[step]


def test_tasks_that_share_an_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"astuner.data.sampler: sampler 'acme' knows tasks by their ids, and some"):
        open_choice(tmp_path, ["a", "b", "a"])


def test_another_sampler_begins_without_the_state_of_the_first(tmp_path: Path) -> None:
    first = open_choice(tmp_path)
    tasks = [task.task_id for task in first.batch(1)]
    first.observe(1, [group(episode(0, 1.0, task=task, success=True)) for task in tasks])
    checkpoint = RunDirectory(run_info(tmp_path).directory).checkpoint(1)
    checkpoint.mkdir(parents=True)
    first.save(checkpoint, 1)
    same, other = open_choice(tmp_path, step=1), open_choice(tmp_path, target="acme:OtherSampler", step=1)
    assert same.known == {1: first.known[1]}
    other.batch(2)
    other.observe(2, [group(episode(0, 1.0, task=task, step=2, success=True)) for task in other.drawn])
    found = json.loads(other.known[2])
    assert found["acme:OtherSampler"]["seen"] == [other.drawn]
    assert set(found["rates"]) == {*tasks, *other.drawn}
    assert "acme:Learnable" not in found


def test_a_task_that_has_gone_is_not_counted(tmp_path: Path) -> None:
    choice = open_choice(tmp_path, ["a", "b", "c", "d"])
    choice.known[1] = json.dumps({"rates": {"a": 1.0, "gone": 0.0}, "acme:Learnable": {}})
    assert choice.measure(1) == {"sampler/tasks_seen": 0.25, "sampler/success_rate": 1.0}
