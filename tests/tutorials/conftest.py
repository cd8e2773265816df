"""The tutorials in one warm environment, which has all that their pages install; warm starts, replays and recipes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from harness import REPOSITORY
from page_commands import Bash, read_blocks
from run_fixtures import bash, cli, python_server, quickstart

__all__ = ["bash", "cli", "python_server", "quickstart"]


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory, quickstart: Path) -> Path:
    """A directory with the tutorials, and what the README's first command makes in a clone."""
    home = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(["git", "ls-files", "-z", "tutorial"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, home / name)
    (home / "my-agent").symlink_to(quickstart)
    return home


@pytest.fixture(scope="session")
def follow_tutorial(clone: Path, bash: Bash) -> Callable[[str], list[str]]:
    """Run the commands of a tutorial in the clone, once; return what each printed: `follow_tutorial("agents")`."""

    @cache
    def follow(name: str) -> list[str]:
        home = clone / "tutorial" / name
        return [bash(command, home) for command in read_blocks(home / "README.md", "bash")]

    return follow
