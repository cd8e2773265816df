"""The sandbox `bubblewrap` for a user who is not root: by user namespaces, also where root runs the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ordinary_user import find_obstacle, list_needed, run_as_nobody

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("sandboxes/test_sandbox_contract.py", "TestBubblewrap"),
        ("agents/test_command_workflow.py", "neighbour or (bubblewrap and trained)"),
    ],
)
def test_bubblewrap_needs_no_root(module: str, names: str) -> None:
    if problem := find_obstacle():
        pytest.skip(problem)
    tests = Path(__file__).parents[1]
    words = ["-q", "-rs", "-c", str(ROOT / "pytest.ini"), "--rootdir", str(ROOT), str(tests / module), "-k", names]
    played = run_as_nobody([sys.executable, "-m", "pytest", *words], [ROOT / "pytest.ini", tests, *list_needed()])
    assert played.returncode == 0, played.stdout[-6000:] + played.stderr[-2000:]
    assert "skipped" not in played.stdout, played.stdout
