"""Bad input is answered by name, place and remedy, with the right exit code, and nothing is lost."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from harness import SMALL, Cli
from runs_on_disk import record

from astuner.shared.install_hints import install_command


def run(cli: Cli, project: Path, *more: str):
    return cli("run", "--conf", "tune.yaml", *SMALL, *more, cwd=project)


def spoil(project: Path, old: str, new: str, name: str = "tune.yaml") -> None:
    path = project / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def first_sibling(project: Path, does: str) -> None:
    """Let the first episode of every group do something else."""
    path = project / "agent.py"
    path.write_text(
        path.read_text()
        + "\n\nclass Odd(CalculatorAgent):\n    async def execute(self, workflow_task, tuner):\n"
        + f"        if workflow_task.repeat == 0:\n            {does}\n"
        + "        return await super().execute(workflow_task, tuner)\n"
    )
    spoil(project, "CalculatorAgent", "Odd")


def line_of(project: Path, text: str, name: str = "tune.yaml") -> int:
    return next(i for i, line in enumerate((project / name).read_text().splitlines(), 1) if text in line)


def test_an_unknown_key_is_named_with_line_and_suggestion(cli: Cli, project: Path):
    spoil(project, "num_repeat:", "num_repeats:")
    refused = run(cli, project)
    assert refused.returncode == 2
    assert f"tune.yaml:{line_of(project, 'num_repeats')}: astuner.rollout.num_repeats" in refused.stderr
    assert "Did you mean 'num_repeat'?" in refused.stderr


def test_a_wrong_type_is_named_with_its_line(cli: Cli, project: Path):
    spoil(project, "temperature: 1.0", "temperature: warm")
    refused = run(cli, project)
    assert refused.returncode == 2
    assert f"tune.yaml:{line_of(project, 'warm')}: astuner.rollout.temperature" in refused.stderr


def test_all_mistakes_are_told_at_once(cli: Cli, project: Path):
    spoil(project, "temperature: 1.0", "temperature: warm")
    spoil(project, "train_batch_size", "train_batchsize")
    refused = run(cli, project, "--set=trainer_common.optim.lrr=1")
    assert refused.returncode == 2
    assert all(word in refused.stderr for word in ("warm", "train_batchsize", "lrr"))


def test_a_missing_task_file_names_key_and_path(cli: Cli, project: Path):
    (project / "tasks" / "train.jsonl").unlink()
    refused = run(cli, project)
    assert refused.returncode == 2
    assert "train.jsonl" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_missing_configuration_is_named(cli: Cli, tmp_path: Path):
    refused = cli("run", "--conf", "nowhere.yaml", cwd=tmp_path)
    assert (refused.returncode, "nowhere.yaml" in refused.stderr) == (2, True)


def test_a_broken_row_names_file_and_line(cli: Cli, project: Path):
    rows = (project / "tasks" / "train.jsonl").read_text().splitlines()
    rows[4] = rows[4][:-3]
    (project / "tasks" / "train.jsonl").write_text("\n".join(rows))
    refused = run(cli, project)
    assert (refused.returncode, "train.jsonl:5" in refused.stderr) == (2, True)


def test_a_duplicate_task_id_names_both_rows(cli: Cli, project: Path):
    rows = [json.loads(row) for row in (project / "tasks" / "train.jsonl").read_text().splitlines()]
    rows[6]["task_id"] = rows[2]["task_id"]
    (project / "tasks" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    refused = run(cli, project)
    assert refused.returncode == 2
    assert all(place in refused.stderr for place in ("train.jsonl:3", "train.jsonl:7", rows[2]["task_id"]))


def test_corrected_tasks_start_without_more_ado(cli: Cli, project: Path):
    path = project / "tasks" / "train.jsonl"
    good = path.read_text()
    path.write_text(good + "{broken")
    assert run(cli, project).returncode == 2
    path.write_text(good)
    assert run(cli, project, "--set=trainer_common.total_training_steps=1").returncode == 0


def test_a_missing_model_is_named(cli: Cli, project: Path):
    refused = run(cli, project, "--set=model.path=./modell")
    assert (refused.returncode, "model.path" in refused.stderr, "modell" in refused.stderr) == (2, True, True)


def test_a_directory_that_is_no_model_is_named(cli: Cli, project: Path):
    refused = run(cli, project, "--set=model.path=./tasks")
    assert refused.returncode in (1, 2)
    assert "config.json" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_taken_port_is_named(cli: Cli, project: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run(cli, project, f"--set=gateway.port={port}")
    assert refused.returncode in (1, 2)
    assert all(word in refused.stderr for word in (str(port), "gateway.port"))


def test_nothing_to_train_ends_the_run_and_says_why(cli: Cli, project: Path):
    (project / "judge.py").write_text("class ExactAnswer:\n    def compute_reward(self, task, output):\n        return 0.5\n")
    failed = run(cli, project, "--set=trainer_common.total_training_steps=40", "--set=trainer_common.save_freq=-1")
    assert failed.returncode == 1
    assert "no token had a non-zero advantage" in failed.stderr
    assert json.loads((record(project) / "state.json").read_text())["status"] == "failed"


def test_a_judge_that_raises_is_no_score_and_ends_the_run_by_the_budget(cli: Cli, project: Path):
    (project / "judge.py").write_text(
        "class ExactAnswer:\n    def compute_reward(self, task, output):\n        raise KeyError('gold')\n"
    )
    failed = run(cli, project)
    assert failed.returncode == 1
    assert "12 of 12 episodes of step 1 (train) have no reward" in failed.stderr
    assert "KeyError: 'gold'" in failed.stderr


def test_a_workflow_that_raises_ends_its_episode_alone(cli: Cli, project: Path):
    first_sibling(project, "raise RuntimeError('broken tool')")
    finished = run(cli, project, "--set=trainer_common.total_training_steps=1", "--set=rollout.max_retries=1")
    assert finished.returncode == 0, finished.stderr
    (row,) = [json.loads(line) for line in (record(project) / "metrics.jsonl").read_text().splitlines()]
    assert (row["signal/lost/workflow_error"], row["signal/episodes_rewarded"]) == (3, 9)


def test_a_workflow_that_hangs_ends_with_its_time_limit(cli: Cli, project: Path):
    first_sibling(project, "await __import__('asyncio').sleep(600)")
    finished = run(
        cli,
        project,
        "--set=trainer_common.total_training_steps=1",
        "--set=rollout.max_retries=0",
        "--set=rollout.episode_timeout_s=15",
    )
    assert finished.returncode == 0, finished.stderr
    (row,) = [json.loads(line) for line in (record(project) / "metrics.jsonl").read_text().splitlines()]
    assert row["signal/lost/timeout"] == 3


def test_a_key_of_another_backbone_is_refused_by_name(cli: Cli, project: Path):
    refused = run(cli, project, "--set=trainer_common.ulysses_sequence_parallel_size=2")
    assert refused.returncode == 2
    assert "trainer_common.ulysses_sequence_parallel_size" in refused.stderr
    assert "'local'" in refused.stderr


def test_a_backbone_that_is_not_installed_names_the_command_that_brings_it(cli: Cli, project: Path):
    refused = cli("run", "--conf", "tune.yaml", "--backbone=verl", cwd=project)
    assert (refused.returncode, install_command("astuner-verl") in refused.stderr) == (2, True)


@pytest.mark.parametrize("name", ["scripted"])
def test_an_engine_without_weights_is_refused_for_training(cli: Cli, project: Path, name: str):
    refused = run(cli, project, f"--set=rollout.name={name}", "--set=rollout.scripted={replies: [hello]}")
    assert refused.returncode in (1, 2)
    assert "weight updates" in refused.stderr
