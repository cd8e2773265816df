"""What a run and the servers listen on, asked of the system: this machine alone, whatever their own settings say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from harness import environment
from listeners import find_listeners, find_reachable
from quickstart_project import QuickstartProject

from astuner_devkit.waiting import until


def list_tree(running: subprocess.Popen[bytes]) -> list[psutil.Process]:
    process = psutil.Process(running.pid)
    return [process, *process.children(recursive=True)]


@pytest.mark.parametrize(
    "words",
    [
        ("env", "serve", "--env", "countdown", "--port", "0"),
        ("trace", "collect", "--out", "traces.jsonl", "--port", "0"),
        ("logview", ".", "--no-open"),
    ],
    ids=" ".join,
)
def test_a_server_listens_on_this_machine_alone(words: tuple[str, ...], tmp_path: Path) -> None:
    env = environment({"XDG_CACHE_HOME": str(tmp_path / "cache"), "ASTUNER_STATE_DIR": str(tmp_path / "state")})
    command = [sys.executable, "-m", "astuner", *words]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            found = until(lambda: find_listeners(list_tree(running)), limit_s=120)
        finally:
            running.terminate()
    assert found
    assert find_reachable(found) == {}


def test_every_process_of_a_run_listens_on_this_machine_alone(quickstart: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with QuickstartProject.copy_beside(quickstart, tmp_path) as project:
        words = project.short("local", 2, rollout__players=2)
        running = project.begin(*words, "--with-logview", XDG_CACHE_HOME=str(tmp_path / "cache"))
        found = project.finish(running)
    # The gateways of two players, and the viewer.
    assert len(found) >= 3
    assert find_reachable(found) == {}


def test_a_server_elsewhere_is_seen(tmp_path: Path) -> None:
    """The check itself: a server that listens on every interface is found."""
    serving = [sys.executable, "-m", "http.server", "0", "--bind", "0.0.0.0"]
    with subprocess.Popen(serving, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            found = until(lambda: find_listeners(list_tree(running)), limit_s=60)
        finally:
            running.terminate()
    assert find_reachable(found) == found
