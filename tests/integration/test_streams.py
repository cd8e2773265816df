"""Estimators that say what each token counts train on the local backbone, and remember across a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import SMALL, Cli, environment
from python_server import PythonServer
from runs_on_disk import metric_rows, record, times_generated, weights_digest
from test_resume import wait_for_episodes

ESTIMATOR = "--set=trainer_common.algorithm"
EPISODES_OF_A_STEP = 12


@pytest.mark.parametrize(
    ("estimator", "settings"),
    [
        ("sft", ()),
        ("rejection_sampling", ("rejection_sampling.least_reward=0.1",)),
        ("opd", ("opd.teacher=reference",)),
        ("gdpo", ()),
        ("turn_level", ("turn_level.discount=0.9",)),
        ("rae", ()),
        ("remax", ()),
    ],
)
def test_every_estimator_of_streams_trains(cli: Cli, project: Path, estimator: str, settings: tuple[str, ...]):
    given = [f"{ESTIMATOR}.{setting}" for setting in (f"adv_estimator={estimator}", *settings)]
    finished = cli("run", "--conf", "tune.yaml", *SMALL, *given, cwd=project)
    assert finished.returncode == 0, finished.stderr
    rows = metric_rows(record(project))
    assert max(row["signal/updates"] for row in rows) == 1
    imitates = estimator in ("sft", "rejection_sampling")
    assert any(row.get("loss/likelihood", 0) > 0 for row in rows) == imitates
    if estimator == "opd":
        # It begins as its own teacher.
        assert abs(rows[0]["loss/policy"]) < 1e-5 < abs(rows[-1]["loss/policy"])


def test_a_teacher_of_another_family_is_refused_by_name(cli: Cli, project: Path, tmp_path: Path):
    shutil.copytree(project / "model", tmp_path / "teacher")
    path = tmp_path / "teacher" / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": 9999, "content": "<|other|>"})
    path.write_text(json.dumps(tokenizer))
    given = (f"{ESTIMATOR}.adv_estimator=opd", f"{ESTIMATOR}.opd.teacher={tmp_path / 'teacher'}")
    refused = cli("run", "--conf", "tune.yaml", *SMALL, *given, cwd=project)
    assert refused.returncode == 2, refused.stderr
    assert "trainer_common.algorithm.opd" in refused.stderr
    assert "another tokenizer" in refused.stderr
    assert "<|other|>" in refused.stderr


def test_a_teacher_that_is_nowhere_is_refused_by_name(cli: Cli, project: Path):
    given = (f"{ESTIMATOR}.adv_estimator=opd", f"{ESTIMATOR}.opd.teacher=./nowhere")
    refused = cli("run", "--conf", "tune.yaml", *SMALL, *given, cwd=project)
    assert refused.returncode == 2, refused.stderr
    assert "trainer_common.algorithm.opd" in refused.stderr
    assert "nowhere" in refused.stderr


@pytest.fixture
def kill_and_resume(cli: Cli, python_server: PythonServer, project: Path, tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Return the records of a run that nothing disturbed, and of one that was killed after some episodes, and resumed."""

    def play(*settings: str, killed_after: int) -> tuple[Path, Path]:
        command = ("run", "--conf", "tune.yaml", *SMALL, *(f"{ESTIMATOR}.{setting}" for setting in settings))
        whole = tmp_path / "whole"
        shutil.copytree(project, whole, symlinks=True)
        assert cli(*command, cwd=whole).returncode == 0
        with (project / "log.txt").open("ab") as log:
            process = python_server.start(
                ["-m", "astuner", *command], cwd=project, env=environment(), output=(log, log), start_new_session=True
            )
            wait_for_episodes(record(project), process, killed_after)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        finished = cli(*command, "--resume", cwd=project)
        assert finished.returncode == 0 or "is finished" in finished.stderr, finished.stderr
        return record(whole), record(project)

    return play


def test_an_estimator_remembers_across_a_kill(kill_and_resume: Callable[..., tuple[Path, Path]]):
    whole, killed = kill_and_resume("adv_estimator=rae", "rae.decay=0.9", killed_after=2 * EPISODES_OF_A_STEP + 3)
    states = [
        json.loads((home / "checkpoints" / f"step_{step}" / "estimator.json").read_text())["state"]
        for home in (whole, killed)
        for step in (2, 4)
    ]
    assert states[:2] == states[2:]
    assert states[0] != states[1]
    assert weights_digest(killed, 4) == weights_digest(whole, 4)
    assert metric_rows(killed) == metric_rows(whole)


def test_greedy_siblings_are_the_same_after_a_kill(kill_and_resume: Callable[..., tuple[Path, Path]]):
    whole, killed = kill_and_resume("adv_estimator=remax", killed_after=3 * EPISODES_OF_A_STEP)
    rows = metric_rows(whole)
    assert all(row["greedy/without_reward"] == 0 and row["signal/rows"] == EPISODES_OF_A_STEP for row in rows)
    assert max(row["signal/updates"] for row in rows) == 1
    assert weights_digest(killed, 4) == weights_digest(whole, 4)
    assert metric_rows(killed) == rows
    played = times_generated(killed)
    greedy = [identity for identity in played if identity.endswith("/greedy")]
    assert (len(greedy), len(played), max(played.values())) == (4 * 3, 4 * (3 + EPISODES_OF_A_STEP), 1)
