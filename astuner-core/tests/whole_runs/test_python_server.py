"""A process of the server behaves as one that was started alone, so the tests that use it test what users start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness import environment
from python_server import PythonServer

from astuner_devkit.waiting import until

REPORT = """
import atexit, json, os, signal, sys, threading
atexit.register(print, "the end", file=sys.stderr)
print(json.dumps({
    "arguments": sys.argv,
    "directory": os.getcwd(),
    "environment": os.environ.get("GREETING"),
    "found": __import__("acme").NAME,
    "input": sys.stdin.read(),
    "main": __name__,
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
    "threads": threading.active_count(),
}))
sys.exit(3)
"""


def test_it_sees_what_a_process_of_its_own_sees(python_server: PythonServer, tmp_path: Path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "acme.py").write_text("NAME = 'acme'")
    env = environment(
        {"GREETING": "hello", "PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))}
    )
    arguments = ["-c", REPORT, "one", "two"]
    alone = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    forked = python_server.run(arguments, cwd=tmp_path, env=env, timeout=60)
    assert (forked.returncode, forked.stderr) == (alone.returncode, alone.stderr) == (3, "the end\n")
    assert json.loads(forked.stdout) == json.loads(alone.stdout)


def test_an_exception_ends_it_with_a_traceback(python_server: PythonServer, tmp_path: Path):
    failed = python_server.run(["-c", "raise ValueError('no')"], cwd=tmp_path, env=environment(), timeout=60)
    assert failed.returncode == 1
    assert failed.stderr.endswith("ValueError: no\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_it_and_its_session(python_server: PythonServer, tmp_path: Path, number: signal.Signals):
    waits = ["-c", "import time; open('ready', 'w'); time.sleep(600)"]
    with (tmp_path / "said").open("wb") as said:
        child = python_server.start(waits, cwd=tmp_path, env=environment(), output=(said, said), start_new_session=True)
    until((tmp_path / "ready").exists)
    assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    assert os.getsid(child.pid) == child.pid
    os.killpg(child.pid, number)
    assert child.wait(60) == -number
