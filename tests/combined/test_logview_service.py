"""`astuner run --with-logview` at a terminal: the viewer shows the run while it goes on, and each step links to its page."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import httpx
import pytest
from harness import SMALL, environment
from pseudo_terminal import PseudoTerminal, python
from runs_on_disk import record

from astuner_devkit.waiting import until

TWO_STEPS = [word.replace("total_training_steps=4", "total_training_steps=2") for word in SMALL]


def test_a_run_at_a_terminal_links_each_step_to_its_worst_group(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    env = environment({"XDG_CACHE_HOME": str(tmp_path / "cache"), "ASTUNER_STATE_DIR": str(tmp_path / "state")})
    command = python("-m", "astuner", "run", "--conf", "tune.yaml", *TWO_STEPS, "--with-logview")
    with PseudoTerminal(command, cwd=project, env=env) as terminal, httpx.Client(follow_redirects=True, timeout=60) as client:
        terminal.until("service 'logview': ready at ")
        address = terminal.until("\n").strip()
        origin = address.partition("/?")[0]
        assert client.get(address).status_code == 200
        # The viewer is ready before the run has written anything.
        (run,) = until(lambda: client.get(f"{origin}/api/runs").json()["runs"], 60)
        assert terminal.end() == 0
    links = re.findall(r"\x1b\]8;[^;]*;(http[^\x1b]+)\x1b\\(\d+)\x1b\]8;;\x1b\\", terminal.raw)
    assert {step for _, step in links} == {"1", "2"}
    assert {link for link, step in links if step == "2"} == {f"{address}#/r/{run['id']}/s/2/worst"}
    assert run["path"] == str(record(project).resolve())
    port = int(origin.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
