"""What goes wrong is said, and ends; nothing hangs, and nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from quickstart_project import START_S
from recorded_tokens import check_recorded_tokens
from run_viewer import open_viewer
from runs_on_disk import times_generated

from astuner.runs.store.episode_store import read_episodes
from astuner.shared.processes.ports import accepts
from astuner.shared.processes.process_environment import export_variables
from astuner.shared.services.ray import PLACES, ray
from astuner.shared.services.running import ServiceHost, run_services
from astuner_devkit.run_infos import run_info
from astuner_devkit.waiting import until
from astuner_trinity.cluster import count_gpus
from astuner_trinity.process_environment import look_at_machine

from .conftest import succeeded


def test_a_trainer_that_dies_ends_the_run_and_its_viewer_and_the_next_goes_on(project: Any) -> None:
    command = project.short("trinity", 40, trainer_common__save_freq=1)
    running = project.begin(*command, "--with-logview", XDG_CACHE_HOME=str(project.home / "cache"))
    with open_viewer(project, running) as viewer:
        viewer.check_trained_tokens(project.run)
        until(lambda: len(project.rows) >= 2, limit_s=START_S)
        project.wait_for_process("WorkerDict").kill()
        assert running.wait(180) == 1
        viewer.check_gone()
    said = (project.home / "said").read_text()
    assert "continue with --resume" in said
    assert "The last lines of" in said
    done = max(int(path.name.removeprefix("step_")) for path in (project.run / "checkpoints").glob("step_*"))
    played = {episode.id for episode in read_episodes(project.run / "episodes", "train") if episode.step == done + 1}
    succeeded(project.train("--resume", steps=done + 1))
    assert [row["step"] for row in project.metrics] == list(range(1, done + 2))
    assert f"going on from step {done}" in project.said.stderr
    # Played with the weights of the checkpoint, and not with those that the run began with.
    assert project.metrics[-1]["staleness/max"] == 0
    check_recorded_tokens(project.run, project.metrics)
    # What the next step had played already was taken from the store.
    stored = times_generated(project.run)
    assert {stored[identity] for identity in played} <= {1}


@pytest.mark.slow
def test_an_explorer_that_dies_ends_the_run(project: Any) -> None:
    running = project.begin(*project.short("trinity", 40))
    until(lambda: project.rows, limit_s=START_S)
    project.wait_for_process("ray::Explorer").kill()
    assert running.wait(180) == 1
    assert "continue with --resume" in (project.home / "said").read_text()


@pytest.mark.slow
def test_a_process_that_plays_dies_and_the_run_says_what_is_missing(project: Any) -> None:
    running = project.begin(*project.short("trinity", 40))
    until(lambda: project.rows, limit_s=START_S)
    project.wait_for_process("ray::WorkflowRunner").kill()
    assert running.wait(180) == 1
    said = (project.home / "said").read_text()
    # Whichever is seen first: its task fails, or the step ends without its group.
    assert "a process of Trinity died" in said or "groups of step" in said
    assert "continue with --resume" in said


@pytest.mark.slow
def test_ctrl_c_saves_the_state(project: Any) -> None:
    running = project.begin(*project.short("trinity", 40))
    until(lambda: project.rows, limit_s=START_S)
    running.send_signal(signal.SIGINT)
    assert running.wait(180) == 130
    saved = sorted(int(path.name.removeprefix("step_")) for path in (project.run / "checkpoints").glob("step_*"))
    assert saved
    assert saved[-1] >= 1


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_nothing(project: Any) -> None:
    running = project.begin(*project.short("trinity", 40))
    project.wait_for_process("ray::Trainer")
    running.kill()
    running.wait(60)
    until(lambda: project.list_processes() == [], limit_s=60)


@pytest.mark.slow
def test_a_small_buffer_makes_the_explorer_wait(project: Any) -> None:
    buffer = "buffer: {trainer_input: {experience_buffer: {capacity: 1}}}"
    project.native(f"{{synchronizer: {{sync_style: fully_async}}, explorer: {{max_inflight_batches: 4}}, {buffer}}}")
    succeeded(project.train(steps=4))
    assert [row["step"] for row in project.metrics] == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_cluster_that_is_there_is_used_and_left(project: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTUNER_STATE_DIR", str(project.state))
    _, variables = look_at_machine()
    place = ServiceHost(directory=tmp_path, say=print, warn=print, stopped=lambda: False)
    with export_variables(variables), run_services({"ray": ray(run_info(tmp_path))}, place):
        assert count_gpus(os.environ["RAY_ADDRESS"]) == [PLACES]
        with export_variables({"RAY_AUTH_TOKEN": "f" * 64}):
            assert count_gpus(os.environ["RAY_ADDRESS"]) is None
        ended = project.train(steps=1, variables={"RAY_AUTH_TOKEN": "f" * 64})
        assert ended.returncode == 1
        assert "its key (RAY_AUTH_TOKEN) is another" in ended.stderr.replace("\n", " ")
        succeeded(project.train("--resume", steps=1))
        assert "service 'ray'" not in project.said.stderr
        _, _, port = os.environ["RAY_ADDRESS"].rpartition(":")
        assert accepts(int(port))


def test_silence_is_an_error(project: Any) -> None:
    ended = project.train(variables={"ASTUNER_TRINITY_SILENCE_S": "0.5"})
    assert ended.returncode == 1
    assert "Trinity said nothing for 0.5 s" in ended.stderr


def test_engines_that_do_not_fit_are_refused(project: Any) -> None:
    project.native("{trainer: {trainer_strategy: megatron}}")
    ended = project.train()
    assert ended.returncode == 2
    assert "trinity.trainer.trainer_strategy" in ended.stderr
