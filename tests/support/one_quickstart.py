"""The quickstart's project and its warm-started model, made once for all test processes, and by tox for all environments."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from quickstart_project import QuickstartProject

MADE_WITH = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
"""Whose versions may change what is written."""


def one_quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project, and make it if there is none yet. Not to be written to.

    It is shared by environments that have the same code and libraries, in the directory that `ASTUNER_SHARED_QUICKSTART` names,
    or else by the processes of this test session.
    """
    shared = os.environ.get("ASTUNER_SHARED_QUICKSTART")
    home = Path(shared) / _describe_makers() if shared else _session_directory(tmp_path_factory) / "quickstart"
    home.mkdir(parents=True, exist_ok=True)
    # Making it takes the longest of all, so the others wait for the first.
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "my-agent").exists():
            # A directory of this name is complete, whatever ends the process that makes it.
            QuickstartProject.make(Path(tempfile.mkdtemp(dir=home))).rename(home / "my-agent")
    return home / "my-agent"


def _session_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def _describe_makers() -> str:
    """Return a digest of the code that makes the project, and of the versions of the libraries that it uses."""
    digest = hashlib.sha256(repr([version(name) for name in MADE_WITH]).encode())
    for package in ("astuner", "astuner_local"):
        spec = find_spec(package)
        assert spec
        assert spec.origin
        home = Path(spec.origin).parent
        for file in sorted(path for path in home.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            digest.update(f"{file.relative_to(home)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
