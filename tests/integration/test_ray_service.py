"""`--with-ray` with real Ray, where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from astuner.shared.processes import list_programs
from astuner.shared.services.ray import ray
from astuner.shared.services.running import ServiceHost, run_services

pytest.importorskip("ray")

WORKS = """
import ray
ray.init(log_to_driver=False)
where = ray.remote(lambda: 6 * 7)
print(ray.get(where.remote()), int(ray.cluster_resources()["CPU"]) >= 16)
"""


def below(scratch: Path) -> list[list[str]]:
    """Return the processes that name the cluster's directory."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(str(scratch) in word for word in words):
            found.append(words)
    return found


@pytest.mark.usefixtures("own_state")
def test_a_private_cluster_works_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    no_run_info: Any = None
    definition = ray(no_run_info)
    assert definition.scratch is not None
    silent: Callable[[str], None] = lambda text: None  # noqa: E731
    place = ServiceHost(directory=tmp_path, say=silent, warn=silent, stopped=lambda: False)
    with run_services({"ray": definition}, place):
        worked = subprocess.run([sys.executable, "-c", WORKS], capture_output=True, text=True, timeout=120, check=False)
        assert worked.stdout.strip() == "42 True", worked.stderr
        assert below(definition.scratch)
    assert below(definition.scratch) == []
    assert not definition.scratch.exists()
    assert "RAY_ADDRESS" not in os.environ
    assert list_programs() == []
