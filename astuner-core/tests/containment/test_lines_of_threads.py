"""The line of users' code that a thread is at: not of those that merely called this package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, threading
from astuner.episodes.containment.code_lines import find_line_of_thread
from astuner.runs.driver.control import call_without_loop

def look(**how):
    print(find_line_of_thread(threading.main_thread().ident, **how))

def own():
    worker = threading.Thread(target=look, kwargs={"in_loop": True})
    worker.start(); worker.join()

async def blocks():
    import users
    users.wait(look)

HERE
"""
USERS = """
import threading

def wait(look):
    for how in ({}, {"in_loop": True}):
        worker = threading.Thread(target=look, kwargs=how)
        worker.start(); worker.join()
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import users; call_without_loop(lambda: users.wait(look), None)", ["users.py:7 in wait", "None"]),
        ("call_without_loop(lambda: asyncio.run(blocks()), None)", ["users.py:7 in wait"] * 2),
        ("call_without_loop(lambda: None, None); own()", ["None"]),
    ],
    ids=["users' code without a loop", "users' code in a loop", "a script that called"],
)
def test_where_the_main_thread_is(tmp_path: Path, code: str, expected: list[str]) -> None:
    (tmp_path / "users.py").write_text(USERS)
    (tmp_path / "script.py").write_text(SCRIPT.replace("HERE", code))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == expected
