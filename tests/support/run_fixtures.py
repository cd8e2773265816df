"""Fixtures of the tests that run the command line: a process that forks commands, and the quickstart's project."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
from harness import Cli, environment
from one_quickstart import one_quickstart
from page_commands import Bash, fork_long_commands, replace_pip, run_bash
from python_server import PythonServer, serve_python

TORCH = ("torch", "transformers.modeling_utils", "transformers.models.qwen2.modeling_qwen2")
"""Seven of the eleven CPU seconds of a short run on `local` are spent on importing these."""

HEAVY = (*(TORCH if find_spec("torch") else ()), "openai.resources.chat", "uvicorn")


@pytest.fixture(scope="session")
def python_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonServer]:
    """Python processes that find the heavy libraries imported."""
    with serve_python(tmp_path_factory.mktemp("server"), preload=HEAVY, env=environment()) as server:
        yield server


@pytest.fixture(scope="session")
def cli(python_server: PythonServer) -> Cli:
    """The command line, in its own process."""

    def run(
        *arguments: object, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 240
    ) -> subprocess.CompletedProcess[str]:
        return python_server.run(["-m", "astuner", *arguments], cwd=cwd, env=environment(env), timeout=timeout)

    return run


@pytest.fixture(scope="session")
def separate_cli() -> Cli:
    """The command line as a user starts it, which imports everything by itself."""

    def run(
        *arguments: object, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 240
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "astuner", *map(str, arguments)]
        return subprocess.run(
            command, cwd=cwd, env=environment(env), capture_output=True, text=True, timeout=timeout, check=False
        )

    return run


@pytest.fixture(scope="session")
def bash(python_server: PythonServer) -> Bash:
    """Runs commands of a page in this environment, which has what they install: `bash(script, directory)`."""
    functions = replace_pip(":") + fork_long_commands(python_server)
    return lambda script, cwd: run_bash(script, cwd, home=Path(sys.prefix), functions=functions)


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `astuner quickstart --no-run` writes it, with its warm-started model. Not to be written to."""
    return one_quickstart(tmp_path_factory)


@pytest.fixture
def project(quickstart: Path, tmp_path: Path) -> Path:
    """A project of one's own to run in, over the shared model, made small: few steps, few tasks."""
    home = tmp_path / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
    (home / "model").symlink_to(quickstart / "model")
    return home
