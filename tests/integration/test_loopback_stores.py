"""The sockets of torch's process groups in a program of a run."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest
from listeners import find_reachable

from astuner.shared.processes import MARK, SOCKETS, free_port

GROUPS = """
import os, sys
import psutil, torch
from listeners import find_listeners
from astuner.shared.processes import keep_stores_here

keep_stores_here()
keep_stores_here()
ports = sys.argv[1:]
for port in ports:
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    ones = torch.ones(3)
    torch.distributed.all_reduce(ones, group=torch.distributed.new_group([0]))
    assert ones.tolist() == [1, 1, 1]
    if port == ports[-1]:
        print(find_listeners([psutil.Process()]))
    torch.distributed.destroy_process_group()
"""


def make_groups(*ports: int, **variables: str) -> dict[str, str]:
    """Return the sockets of a process that makes process groups at these ports, one after the other."""
    environment = {**os.environ, **SOCKETS, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    words = [sys.executable, "-c", GROUPS, *map(str, ports)]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = ast.literal_eval(ended.stdout.splitlines()[-1])
    return found


def test_the_stores_of_a_run_listen_on_this_machine_alone() -> None:
    port = free_port()
    # The second group finds the store of the first.
    found = make_groups(port, port, **{MARK: "service-1"})
    assert f"127.0.0.1:{port}" in found
    assert find_reachable(found) == {}


def test_those_of_other_programs_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MARK, raising=False)
    port = free_port()
    assert [address.rpartition(":")[2] for address in find_reachable(make_groups(port))] == [str(port)]
