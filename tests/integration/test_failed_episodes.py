"""Agents that crash, overflow and stop at the limit: what the run reports is what the same weights do.

The truth comes from one run without any limit, whose sampled texts are the same: an episode that would have reached the
limit is no success.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Cli
from runs_on_disk import metric_rows, record

from astuner.contract.schema import Episode
from astuner.runs.store.episode_store import read_episodes

STEP = (
    "--backbone=local",
    "--set=data.train_batch_size=16",
    "--set=rollout.num_repeat=8",
    "--set=rollout.failure_budget=1.0",
    "--set=trainer_common.total_training_steps=1",
    "--set=trainer_common.val_before_train=false",
    "--set=trainer_common.test_freq=-1",
)

CRASH = """            if not reply.tool_calls:
                if not tool_calls:
                    raise ValueError("no tool call in the first answer")
"""


def play(cli: Cli, project: Path, name: str, *settings: str) -> tuple[dict[str, float], list[Episode]]:
    finished = cli("run", "--conf", "tune.yaml", *STEP, f"--set=experiment_name={name}", *settings, cwd=project)
    assert finished.returncode == 0, finished.stderr
    run = record(project, name)
    [row] = metric_rows(run)
    return row, list(read_episodes(run / "episodes", "train"))


def calls_no_tool(episode: Episode) -> bool:
    return not episode.calls[0].reply.get("tool_calls")


def calls_twice(episode: Episode) -> bool:
    return len(episode.calls) > 1


@pytest.mark.parametrize(
    ("reason", "fails", "settings"),
    [
        ("workflow_error", calls_no_tool, ("--set=rollout.user_workflow=./crashing.py:CalculatorAgent",)),
        ("max_steps", calls_twice, ("--set=rollout.multi_turn.max_steps=1",)),
        ("context_full", calls_twice, ("--set=rollout.user_workflow=./long_winded.py:CalculatorAgent",)),
    ],
)
def test_the_success_that_is_reported_is_that_of_the_weights(
    cli: Cli, project: Path, reason: str, fails: Callable[[Episode], bool], settings: tuple[str, ...]
) -> None:
    agent = (project / "agent.py").read_text()
    (project / "crashing.py").write_text(agent.replace("            if not reply.tool_calls:\n", CRASH))
    # What the tool returns fills the context.
    (project / "long_winded.py").write_text(agent.replace('"content": result}', '"content": result * 200}'))
    _, free = play(cli, project, "free", "--set=rollout.max_model_len=2000")
    row, limited = play(cli, project, "limited", *settings)
    truth = sum(bool(one.is_success) and not fails(one) for one in free) / len(free)
    interval = 1.96 * math.sqrt(truth * (1 - truth) / len(free))
    assert row["success/rate"] == pytest.approx(truth, abs=interval + 1e-9)
    failed = [one for one in limited if not one.completed]
    assert {one.failures[-1].reason for one in failed} == {reason}
    assert len(failed) == sum(map(fails, free))
    assert (row["signal/retries"], row["signal/episodes"]) == (0, len(free))
