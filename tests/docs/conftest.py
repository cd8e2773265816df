"""A clone of the repository and its own environment, in which the README's first command is run once for all tests.

That command is run as it stands. Those after it are run with uv in the place of pip, which hides how pip itself resolves and
builds the packages of the later pages. Nothing is forked: these pages install packages, and leave servers to a signal.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from page_commands import Bash, read_blocks, replace_pip, run_bash

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files as they are in the working tree, in a directory of their own."""
    home = tmp_path_factory.mktemp("clone") / "astuner"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, home / name)
    return home


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=True)
    return home


@pytest.fixture(scope="session")
def first_command_said(clone: Path, fresh: Path) -> str:
    """What the README's first command printed: it has installed everything and tuned `my-agent` in the clone."""
    return run_bash(read_blocks(REPOSITORY / "README.md", "bash")[0], clone, home=fresh)


@pytest.fixture(scope="session")
def activated_bash(fresh: Path) -> Bash:
    """Runs a script in the environment of the README's first command: `activated_bash(script, directory)`."""
    uv = Path(sys.executable).with_name("uv")
    return lambda script, cwd: run_bash(script, cwd, home=fresh, functions=replace_pip(f"{uv} pip"))
