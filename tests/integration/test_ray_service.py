"""`--with-ray` with real Ray, where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from listeners import find_listeners, find_reachable

from astuner.shared.processes import attach, list_programs
from astuner.shared.services.ray import ray
from astuner.shared.services.running import ServiceHost, run_services

pytest.importorskip("ray")

WORKS = """
import ray
ray.init(log_to_driver=False)
where = ray.remote(lambda: 6 * 7)
print(ray.get(where.remote()), int(ray.cluster_resources()["CPU"]) >= 16)
"""

# As in a driver: an agent's code has imported Ray before the cluster was there.
IMPORTED_BEFORE = """
import json, os, sys
import ray
from astuner.shared.services.ray import read_variables_again
os.environ.update(json.loads(sys.argv[1]))
read_variables_again()
ray.init(log_to_driver=False)
print(ray.util.get_node_ip_address())
"""


def below(scratch: Path) -> list[list[str]]:
    """Return the processes that name the cluster's directory."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(str(scratch) in word for word in words):
            found.append(words)
    return found


def watch_cluster(program: subprocess.Popen[str]) -> dict[str, str]:
    """Return the sockets of the cluster's processes, and of a program in it, until that has ended."""
    (record,) = list_programs()
    found: dict[str, str] = {}
    while program.poll() is None:
        found |= find_listeners([*attach(record).members(), psutil.Process(program.pid)])
    return found


@pytest.mark.usefixtures("own_state")
def test_a_private_cluster_listens_on_this_machine_alone_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    no_run_info: Any = None
    definition = ray(no_run_info)
    assert definition.scratch is not None
    assert definition.service is not None
    assert definition.service.env["RAY_USAGE_STATS_ENABLED"] == "0"
    silent: Callable[[str], None] = lambda text: None  # noqa: E731
    place = ServiceHost(directory=tmp_path, say=silent, warn=silent, stopped=lambda: False)
    with run_services({"ray": definition}, place):
        with subprocess.Popen([sys.executable, "-c", WORKS], stdout=subprocess.PIPE, text=True) as worked:
            said = watch_cluster(worked)
            assert worked.stdout is not None
            assert worked.stdout.read().strip() == "42 True"
        # Which of its smaller agents listen by then is a matter of time.
        programs = " ".join(said.values())
        assert [name for name in ("gcs_server", "raylet/raylet") if name not in programs] == []
        assert find_reachable(said) == {}
        variables = {name: value for name, value in os.environ.items() if name in definition.exports}
        bare = {name: value for name, value in os.environ.items() if name not in definition.exports}
        words = [sys.executable, "-c", IMPORTED_BEFORE, json.dumps(variables)]
        again = subprocess.run(words, env=bare, capture_output=True, text=True, timeout=120, check=False)
        assert again.stdout.strip() == "127.0.0.1", again.stderr
        assert below(definition.scratch)
    assert below(definition.scratch) == []
    (log,) = (tmp_path / "logs").glob("*ray.log")
    # It ended when it was asked to, without waiting for work that nobody has.
    assert "exit status -9" not in log.read_text()
    assert not definition.scratch.exists()
    assert "RAY_ADDRESS" not in os.environ
    assert list_programs() == []
