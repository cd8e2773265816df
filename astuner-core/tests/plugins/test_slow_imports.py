"""A module that hangs when it is imported is named."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from astuner.episodes.rollout.workflows import load_workflow
from astuner.settings.plugins import slow_imports

WAITING = """
import sys
import time

while "still importing" not in sys.stderr.getvalue():
    time.sleep(0.01)  # as a lock or a server that does not answer would


async def play(task, model):
    ...
"""


def import_and_read(home: Path, target: str) -> str:
    """Return what is printed while a workflow is imported."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        load_workflow(target, home)
    return said.getvalue()


def test_a_module_that_waits_when_it_is_imported_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_imports, "SLOW_S", 0.05)
    (tmp_path / "waiting_agent.py").write_text(WAITING)
    (line,) = import_and_read(tmp_path, "./waiting_agent.py:play").splitlines()
    assert line.startswith("info: still importing workflow './waiting_agent.py:play'")
    assert ", which is at waiting_agent.py:" in line


def test_a_module_that_is_imported_at_once_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "quick_agent.py").write_text("async def play(task, model): ...\n")
    assert import_and_read(tmp_path, "./quick_agent.py:play") == ""
