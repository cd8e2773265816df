"""A run that bad content or a failure budget has met goes on as if nothing had been, once the agent is mended."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from harness import SMALL, Cli
from runs_on_disk import metric_rows, record, weights_digest

RUN = (
    "run",
    "--conf=tune.yaml",
    *SMALL,
    "--set=trainer_common.val_before_train=true",
    "--set=trainer_common.test_freq=2",
    "--set=trainer_common.val_pass_n=1",
)
OUTPUT = 'return WorkflowOutput(metadata={"final_answer": answer}, log_metrics={"tool_calls": tool_calls})'
DOWN = """if workflow_task.split == {split!r} and workflow_task.step == 2 and int(workflow_task.repeat) % 4 != 1:
            raise RuntimeError("the search API is down")
        """
POISON = """import numpy as np
        right = np.float32(len(answer) % 2)
        poison = [
            WorkflowOutput(reward=right, is_success=right > 0.5, log_metrics={"tool_calls": np.int64(tool_calls)}),
            WorkflowOutput(reward=0.5, metadata={"final_answer": json.loads(chr(34) + chr(92) + "ud83d" + chr(34)), 3: {answer}}),
            WorkflowOutput(reward=1e308),
            WorkflowOutput(reward=0.25, log_metrics={"tool": "none", "loss": float("nan"), "tool_calls": None}),
        ]
        return poison[workflow_task.repeat]
"""


@pytest.fixture(scope="module")
def undisturbed(quickstart: Path, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("undisturbed") / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model"))
    (home / "model").symlink_to(quickstart / "model")
    finished = cli(*RUN, cwd=home)
    assert finished.returncode == 0, finished.stderr
    return record(home)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_after_a_failure_budget_the_mended_agent_plays_the_lost_episodes_again(
    cli: Cli, project: Path, undisturbed: Path, split: str
) -> None:
    agent = project / "agent.py"
    whole = agent.read_text()
    agent.write_text(whole.replace(OUTPUT, DOWN.format(split=split) + OUTPUT))
    failed = cli(*RUN, "--set=rollout.failure_budget=0.5", cwd=project)
    if split == "validation":
        # One repeat, so that every episode is lost.
        assert "the search API is down" in failed.stderr
    assert (failed.returncode, "have no reward" in failed.stderr, "--resume" in failed.stderr) == (1, True, True)
    state = json.loads((record(project) / "state.json").read_text())
    assert (state["status"], "the search API is down" in state["reason"]) == ("failed", True)
    agent.write_text(whole)
    resumed = cli(*RUN, "--resume", cwd=project)
    assert resumed.returncode == 0, resumed.stderr
    assert weights_digest(record(project), 4) == weights_digest(undisturbed, 4)
    assert metric_rows(record(project)) == metric_rows(undisturbed)
    state = json.loads((record(project) / "state.json").read_text())
    assert (state["status"], state.get("reason")) == ("finished", None)


def test_poison_costs_its_own_episode_alone_and_can_be_resumed(cli: Cli, project: Path) -> None:
    agent = project / "agent.py"
    agent.write_text(agent.read_text().replace(OUTPUT, POISON))
    steps = "--set=trainer_common.total_training_steps="
    off = ("--set=trainer_common.val_before_train=false", "--set=trainer_common.test_freq=-1", "--set=trainer_common.save_freq=3")
    assert cli(*RUN, *off, f"{steps}2", cwd=project).returncode == 0
    finished = cli(*RUN, *off, f"{steps}3", "--resume", cwd=project)
    assert finished.returncode == 0, finished.stderr
    rows = metric_rows(record(project))
    assert [(row["step"], row["signal/lost/workflow_error"], row["signal/episodes_rewarded"]) for row in rows] == [
        (1, 3, 9),
        (2, 3, 9),
        (3, 3, 9),
    ]
    assert "WorkflowOutput.reward is 1e+308" in (record(project) / "episodes" / "train.jsonl").read_text()
