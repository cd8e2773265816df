"""The quickstart's project and its warm-started model, made once for all processes of a test session."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from quickstart_project import QuickstartProject


def one_quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project of the session, and make it if it is not there. Not to be written to."""
    own = tmp_path_factory.getbasetemp()
    # Test processes that run beside each other wait for the first one's, since making it takes the longest.
    home = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "quickstart"
    home.mkdir(exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (home / "my-agent" / "model" / "config.json").exists():
            return home / "my-agent"
        return QuickstartProject.make(home)
