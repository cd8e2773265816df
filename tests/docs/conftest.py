"""A clone of the repository and its own environment, in which the README's first command is run once for all tests.

That command is run as it stands. The commands after it install with uv, and `astuner run` and `astuner warm-start` are forked
from a process that has imported torch, most of a short run. What this hides is how pip itself resolves and builds the packages
of the later pages, and the order of the heavy imports.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from python_server import serve_python

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_S = 1200
HEAVY = ("torch", "transformers.models.qwen2.modeling_qwen2", "openai.resources.chat", "uvicorn")
FUNCTIONS = f"""
pip() {{ {Path(sys.executable).with_name("uv")} pip "$@"; }}
python() {{ if [ "$1 $2" = "-m pip" ]; then pip "${{@:3}}"; else command python "$@"; fi; }}
astuner() {{
    case "$1" in
        run | warm-start) {sys.executable} {REPOSITORY}/tests/support/python_client.py $SERVER -m astuner "$@" ;;
        *) command astuner "$@" ;;
    esac
}}
"""
"""Of a shell that has activated an environment; `SERVER` is the socket of a server of that environment."""

Bash = Callable[..., str]
Blocks = Callable[..., list[str]]


@pytest.fixture(scope="session")
def blocks() -> Blocks:
    """The texts of a document's blocks in a language: `blocks(document, "bash")`."""

    def found(document: Path, language: str) -> list[str]:
        return [text.strip() for named, text in BLOCK.findall(document.read_text(encoding="utf-8")) if named == language]

    return found


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
def activated_bash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bash]:
    """Runs a script in a fresh virtual environment, and returns what it printed: `activated_bash(script, directory)`."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=True)
    # What a command prints of a path must not depend on how wide pytest's own terminal is.
    environment = {**os.environ, "COLUMNS": "200"}
    with ExitStack() as servers:

        @cache
        def start_server() -> str:
            made = serve_python(
                tmp_path_factory.mktemp("server"), preload=HEAVY, env=environment, python=str(home / "bin" / "python")
            )
            return servers.enter_context(made).socket_path

        def run(script: str, cwd: Path, *, as_it_stands: bool = False) -> str:
            functions = "" if as_it_stands else f"SERVER={start_server()}\n{FUNCTIONS}"
            command = ["bash", "-c", f"set -e; . {home}/bin/activate\n{functions}{script}"]
            ended = subprocess.run(
                command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            assert ended.returncode == 0, f"{script}\n{ended.stdout[-4000:]}{ended.stderr[-4000:]}"
            return ended.stdout + ended.stderr

        yield run


@pytest.fixture(scope="session")
def first_command_said(clone: Path, activated_bash: Bash, blocks: Blocks) -> str:
    """What the README's first command printed: it has installed everything and tuned `my-agent` in the clone."""
    return activated_bash(blocks(REPOSITORY / "README.md", "bash")[0], clone, as_it_stands=True)


@pytest.fixture(scope="session")
def follow_tutorial(clone: Path, activated_bash: Bash, blocks: Blocks, first_command_said: str) -> Callable[[str], list[str]]:
    """Run the commands of a tutorial in the clone, once; return what each printed: `follow_tutorial("agents")`.

    They build on the environment and the model that the first command has made.
    """

    @cache
    def follow(name: str) -> list[str]:
        commands = blocks(REPOSITORY / "tutorial" / name / "README.md", "bash")
        return [activated_bash(command, clone / "tutorial" / name) for command in commands]

    return follow
