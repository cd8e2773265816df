"""Stages of one YAML on the local backbone: each begins where the one before ended, and a sequence that was killed goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from harness import REPOSITORY, SMALL, Cli, environment
from python_server import ForkedPython, PythonServer
from runs_on_disk import metric_rows, record, times_generated, weights_digest
from test_resume import wait_for_episodes

from astuner_local.tiny.arithmetic import SHOWN, ask
from astuner_local.tiny.demos import TOOLS, make_tool_conversation

COMMAND = ("run", "--conf", "tune.yaml", *SMALL)
STEPS = 4
FIRST, SECOND = "calculator.1-first", "calculator.2-second"

Start = Callable[..., ForkedPython]


def add_stages(project: Path, *stages: dict[str, object]) -> None:
    document = yaml.safe_load((project / "tune.yaml").read_text())
    document["astuner"]["stages"] = list(stages)
    (project / "tune.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def add_two(project: Path, estimator: str = "grpo") -> None:
    first = {"name": "first", "trainer_common": {"algorithm": {"adv_estimator": estimator}}}
    add_stages(project, first, {"name": "second", "seed": 5, "trainer_common": {"algorithm": {"adv_estimator": "rloo"}}})


@pytest.fixture
def staged(project: Path) -> Path:
    add_two(project)
    return project


@pytest.fixture(scope="module")
def uninterrupted(quickstart: Path, separate_cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("uninterrupted") / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model"))
    (home / "model").symlink_to(quickstart / "model")
    add_two(home)
    finished = separate_cli(*COMMAND, cwd=home)
    assert finished.returncode == 0, finished.stderr
    return home


@pytest.fixture
def start(python_server: PythonServer) -> Start:
    def start(project: Path, *more: str) -> ForkedPython:
        with (project / "log.txt").open("ab") as log:
            command = ["-m", "astuner", *COMMAND, *more]
            return python_server.start(command, cwd=project, env=environment(), output=(log, log), start_new_session=True)

    return start


def check_same_stages(project: Path, uninterrupted: Path) -> None:
    for name in (FIRST, SECOND):
        one, other = record(project, name), record(uninterrupted, name)
        assert weights_digest(one, STEPS) == weights_digest(other, STEPS)
        assert metric_rows(one) == metric_rows(other)
        assert set(times_generated(one).values()) == {1}
        assert times_generated(one).keys() == times_generated(other).keys()


def digest_model(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def test_a_stage_begins_with_the_weights_that_the_one_before_ended_with(uninterrupted: Path):
    first, second = record(uninterrupted, FIRST), record(uninterrupted, SECOND)
    saved = next((first / "checkpoints" / f"step_{STEPS}").rglob("model.safetensors"))
    assert digest_model(first) == saved.read_bytes()
    assert json.loads((first / "state.json").read_text())["handed_over"] == f"step_{STEPS}"
    assert yaml.safe_load((second / "config.yaml").read_text())["resolved"]["astuner"]["model"]["path"] == str(first / "model")
    stage = json.loads((second / "run.json").read_text())["stage"]
    assert (stage["name"], stage["number"], stage["of"], stage["experiment"]) == ("second", 2, 2, "calculator")


@pytest.mark.parametrize("episodes", [5, 30])
def test_killed_inside_the_first_it_goes_on_to_the_same_weights(
    start: Start, staged: Path, uninterrupted: Path, cli: Cli, episodes: int
):
    process = start(staged)
    wait_for_episodes(record(staged, FIRST), process, episodes)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not record(staged, SECOND).exists()
    finished = cli(*COMMAND, "--resume", cwd=staged)
    assert finished.returncode == 0, finished.stderr
    check_same_stages(staged, uninterrupted)


@pytest.mark.parametrize("handed_over", [False, True])
def test_killed_between_two_nothing_is_trained_twice_and_nothing_left_out(
    staged: Path, uninterrupted: Path, cli: Cli, handed_over: bool
):
    if handed_over:
        shutil.copytree(record(uninterrupted, FIRST), record(staged, FIRST), symlinks=True)
    else:
        # What is there when the first has ended and the second has not begun.
        assert cli(*COMMAND, "--set=stage=first", cwd=staged).returncode == 0
    before = (record(staged, FIRST) / "metrics.jsonl").read_bytes()
    finished = cli(*COMMAND, "--resume", cwd=staged)
    assert finished.returncode == 0, finished.stderr
    assert "stage 1 of 2, first: finished earlier" in finished.stderr
    assert (record(staged, FIRST) / "metrics.jsonl").read_bytes() == before
    assert len(json.loads((record(staged, FIRST) / "run.json").read_text())["attempts"]) == 1
    check_same_stages(staged, uninterrupted)


def test_killed_inside_the_second_it_goes_on_to_the_same_weights(start: Start, staged: Path, uninterrupted: Path, cli: Cli):
    process = start(staged)
    wait_for_episodes(record(staged, SECOND), process, 28)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = cli(*COMMAND, "--resume", cwd=staged)
    assert finished.returncode == 0, finished.stderr
    check_same_stages(staged, uninterrupted)
    again = cli(*COMMAND, "--resume", cwd=staged)
    assert (again.returncode, "all 2 stages are finished" in again.stderr) == (2, True)


def test_ctrl_c_stops_the_whole_sequence_and_says_how_to_go_on(start: Start, staged: Path, uninterrupted: Path, cli: Cli):
    process = start(staged)
    wait_for_episodes(record(staged, FIRST), process, 14)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    said = (staged / "log.txt").read_text()
    command = said.partition("continue with: ")[2].splitlines()[0]
    assert command.startswith("astuner run --conf tune.yaml")
    assert command.endswith("--resume")
    assert "stage=" not in command
    assert list((record(staged, FIRST) / "checkpoints").glob("step_*"))
    assert not record(staged, SECOND).exists()
    again = cli(*COMMAND, cwd=staged)
    assert (again.returncode, "--resume" in again.stderr) == (2, True)
    assert cli(*COMMAND, "--resume", cwd=staged).returncode == 0
    check_same_stages(staged, uninterrupted)


def test_a_changed_stage_is_refused_by_its_place_although_it_is_finished(staged: Path, uninterrupted: Path, cli: Cli):
    shutil.copytree(record(uninterrupted, FIRST), record(staged, FIRST), symlinks=True)
    add_two(staged, "dr_grpo")
    refused = cli(*COMMAND, "--resume", cwd=staged)
    assert refused.returncode == 2
    assert "astuner.stages[0].trainer_common.algorithm.adv_estimator: was 'grpo'" in refused.stderr
    assert not record(staged, SECOND).exists()


def test_a_stage_is_not_made_longer_once_the_next_has_begun(staged: Path, uninterrupted: Path, cli: Cli):
    shutil.copytree(uninterrupted / "launcher_record", staged / "launcher_record", symlinks=True)
    refused = cli(*COMMAND, "--set=trainer_common.total_training_steps=6", "--resume", cwd=staged)
    assert refused.returncode == 2
    assert "stage 1 of 2, first: is finished, and has another length now" in refused.stderr


def test_a_stage_that_fails_ends_the_sequence(project: Path, cli: Cli):
    (project / "broken.py").write_text(
        "from astuner import Workflow\n\n\nclass Broken(Workflow):\n    async def execute(self, workflow_task, tuner):\n"
        "        raise ValueError('broken on purpose')\n"
    )
    add_stages(project, {"name": "first", "rollout": {"user_workflow": "./broken.py:Broken"}}, {"name": "second"})
    failed = cli(*COMMAND, cwd=project)
    assert failed.returncode == 1
    assert "broken on purpose" in failed.stderr
    assert not record(project, SECOND).exists()


def test_adapters_are_merged_and_the_best_checkpoint_is_handed_over(project: Path, cli: Cli):
    best = {"test_freq": 1, "keep_best": True, "optim": {"lr": 0.01}}
    add_stages(project, {"name": "first", "model": {"lora_rank": 4}, "trainer_common": best}, {"name": "second"})
    given = [part for part in SMALL if "test_freq" not in part]
    finished = cli("run", "--conf", "tune.yaml", *given, cwd=project)
    assert finished.returncode == 0, finished.stderr
    first = record(project, FIRST)
    state = json.loads((first / "state.json").read_text())
    values = {int(step): found["value"] for step, found in state["validations"].items() if step != "0"}
    # Of equals the last: it has learnt most.
    assert state["handed_over"] == f"step_{max(values, key=lambda step: (values[step], step))}"
    assert not (first / "model" / "adapter_config.json").exists()
    assert digest_model(first) != (project / "model" / "model.safetensors").read_bytes()


TAUGHT = {"name": "warm_start", "demonstrations": {"file": "demos.jsonl", "epochs": 4, "lr": 1.0e-3}}
WARM = "calculator.1-warm_start"


def write_demonstrations(project: Path, count: int = 50) -> None:
    import random

    drawn = random.Random(1)
    rows = ({"messages": make_tool_conversation(ask(drawn, SHOWN)), "tools": TOOLS} for _ in range(count))
    (project / "demos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_demonstrations_are_learnt_first_and_over_again_after_a_kill(start: Start, project: Path, cli: Cli, tmp_path: Path):
    write_demonstrations(project)
    add_stages(project, TAUGHT, {"name": "rl"})
    whole = tmp_path / "whole"
    shutil.copytree(project, whole, symlinks=True)
    finished = cli(*COMMAND, cwd=whole)
    assert finished.returncode == 0, finished.stderr
    process = start(project)
    deadline = time.monotonic() + 120
    while not (record(project, WARM) / "run.json").exists() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = cli(*COMMAND, "--resume", cwd=project)
    assert finished.returncode == 0, finished.stderr
    assert digest_model(record(project, WARM)) == digest_model(record(whole, WARM))
    assert weights_digest(record(project, "calculator.2-rl"), STEPS) == weights_digest(record(whole, "calculator.2-rl"), STEPS)
    write_demonstrations(project, 49)
    changed = cli(*COMMAND, "--resume", cwd=project)
    assert changed.returncode == 2
    assert "stages[0].demonstrations: sha256 was" in changed.stderr


def test_a_stage_of_demonstrations_that_is_stopped_says_how_to_go_on(start: Start, project: Path):
    write_demonstrations(project)
    add_stages(project, {**TAUGHT, "demonstrations": {"file": "demos.jsonl", "epochs": 2000}}, {"name": "rl"})
    process = start(project)
    deadline = time.monotonic() + 120
    while "training: 45 rows" not in (project / "log.txt").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130, (project / "log.txt").read_text()
    said = (project / "log.txt").read_text()
    assert "stopped in stage 1 of 2, warm_start; continue with: astuner run --conf tune.yaml" in said
    assert json.loads((record(project, WARM) / "state.json").read_text())["status"] == "interrupted"
    assert not record(project, "calculator.2-rl").exists()


def test_from_random_weights_by_demonstrations_and_rewards_to_an_agent(cli: Cli, tmp_path: Path):
    home = tmp_path / "tickets"
    shutil.copytree(REPOSITORY / "tutorial" / "support_tickets", home)
    taught = {"file": "demos.jsonl", "tiny": True, "epochs": 24, "validate_before": True}
    add_stages(
        home,
        {"name": "warm_start", "demonstrations": taught},
        {"name": "rl", "trainer_common": {"total_training_steps": 40, "test_freq": -1}},
    )
    finished = cli("run", "--conf", "tune.yaml", cwd=home)
    assert finished.returncode == 0, finished.stderr
    runs = home / "launcher_record"
    started = [runs / f"tickets.1-warm_start-warm-start-{when}.eval" for when in ("before", "after")]
    [untrained], [taught_reward] = ([row["val/reward/mean"] for row in metric_rows(run)] for run in started)
    *_, tuned = (row["val/reward/mean"] for row in metric_rows(runs / "tickets.2-rl") if "val/reward/mean" in row)
    assert untrained == 0
    assert untrained + 0.3 < taught_reward
    assert tuned > taught_reward
