"""Estimators that say what each token counts train on the local backbone, and remember across a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from harness import SMALL, Cli, environment
from python_server import PythonServer
from runs_on_disk import metric_rows, record, weights_digest
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


def test_an_estimator_remembers_across_a_kill(cli: Cli, python_server: PythonServer, project: Path, tmp_path: Path):
    command = ("run", "--conf", "tune.yaml", *SMALL, f"{ESTIMATOR}.adv_estimator=rae", f"{ESTIMATOR}.rae.decay=0.9")
    whole = tmp_path / "whole"
    shutil.copytree(project, whole, symlinks=True)
    assert cli(*command, cwd=whole).returncode == 0
    with (project / "log.txt").open("ab") as log:
        process = python_server.start(
            ["-m", "astuner", *command], cwd=project, env=environment(), output=(log, log), start_new_session=True
        )
        wait_for_episodes(record(project), process, 2 * EPISODES_OF_A_STEP + 3)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finished = cli(*command, "--resume", cwd=project)
    assert finished.returncode == 0 or "is finished" in finished.stderr, finished.stderr
    states = [
        json.loads((record(home) / "checkpoints" / f"step_{step}" / "estimator.json").read_text())["state"]
        for home in (whole, project)
        for step in (2, 4)
    ]
    assert states[:2] == states[2:]
    assert states[0] != states[1]
    assert weights_digest(record(project), 4) == weights_digest(record(whole), 4)
    assert metric_rows(record(project)) == metric_rows(record(whole))
