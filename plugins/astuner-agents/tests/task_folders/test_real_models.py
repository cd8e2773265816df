"""The folders of these tests are read by the models of Harbor itself, where its package is installed (Python 3.12 or later)."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner_agents.task_folders.reader import read_folder

harbor = pytest.importorskip("harbor.models.task.task", reason="the package harbor is not installed")
FOLDERS = Path(__file__).with_name("folders")


@pytest.mark.parametrize("name", ["hello-file", "fix-mean", "count-words"])
def test_harbor_reads_the_same(name: str) -> None:
    theirs, ours = harbor.Task(FOLDERS / name), read_folder(FOLDERS / name)
    config = theirs.config
    assert theirs.instruction == ours.instruction
    assert (config.agent.timeout_sec, config.verifier.timeout_sec) == (ours.agent_timeout_s, ours.verifier_timeout_s)
    environment = config.environment
    assert (environment.docker_image, environment.cpus, environment.memory_mb) == (ours.docker_image, ours.cpus, ours.memory_mb)
    assert (environment.workdir, environment.env, config.solution.env) == (
        ours.workdir,
        ours.environment,
        ours.solution_environment,
    )
    assert environment.network_mode.value == ours.network
    assert harbor.Task.is_valid_dir(FOLDERS / name)
