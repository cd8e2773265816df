"""What goes wrong is said, and ends; nothing hangs, and nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from quickstart_project import START_S
from run_viewer import open_viewer

from astuner.shared.processes.ports import accepts
from astuner.shared.services.ray import ray
from astuner.shared.services.running import ServiceHost, run_services
from astuner_devkit.run_infos import run_info
from astuner_devkit.waiting import until

from .conftest import succeeded


def test_a_worker_that_dies_ends_the_run_and_its_viewer_and_the_next_goes_on(project: Any) -> None:
    running = project.begin(*project.short("verl", 40), "--with-logview", XDG_CACHE_HOME=str(project.home / "cache"))
    with open_viewer(project, running) as viewer:
        viewer.check_trained_tokens(project.run)
        project.wait_for_process("WorkerDict").kill()
        assert running.wait(120) == 1
        viewer.check_gone()
    said = (project.home / "said").read_text()
    assert "a process of the trainer died" in said
    assert "continue with --resume" in said
    assert "The last lines of worker-" in said
    done = len(project.rows)
    succeeded(project.train("--resume", steps=done + 1))
    assert [row["step"] for row in project.metrics] == list(range(1, done + 2))


@pytest.mark.slow
def test_ctrl_c_saves_the_state(project: Any) -> None:
    running = project.begin(*project.short("verl", 40))
    until(lambda: project.rows, limit_s=START_S)
    running.send_signal(signal.SIGINT)
    assert running.wait(120) == 130
    assert list((project.run / "checkpoints").glob("step_*"))


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_nothing(project: Any) -> None:
    running = project.begin(*project.short("verl", 40))
    project.wait_for_process("WorkerDict")
    running.kill()
    running.wait(60)
    until(lambda: project.list_processes() == [], limit_s=60)


def test_more_workers_than_there_are_places_are_refused(project: Any) -> None:
    ended = project.train(trainer_common__n_gpus_per_node=64)
    assert ended.returncode == 2
    assert "trainer_common.n_gpus_per_node: 1 node(s) with 64 places for workers each are asked for" in ended.stderr


@pytest.mark.slow
def test_a_cluster_that_is_there_is_used_and_left(project: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTUNER_STATE_DIR", str(project.state))
    notes: list[str] = []
    place = ServiceHost(directory=tmp_path, say=notes.append, warn=notes.append, stopped=lambda: False)
    with run_services({"ray": ray(run_info(tmp_path))}, place):
        succeeded(project.train(steps=1))
        assert "service 'ray'" not in project.said.stderr
        _, _, port = os.environ["RAY_ADDRESS"].rpartition(":")
        assert accepts(int(port))


def test_silence_is_an_error(project: Any) -> None:
    ended = project.train(variables={"ASTUNER_VERL_SILENCE_S": "0.5"})
    assert ended.returncode == 1
    assert "starting the trainer: the trainer said nothing for 0.5 s" in ended.stderr
