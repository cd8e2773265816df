"""The commands of pages, run in bash as their readers type them, but for what takes long and is tested elsewhere.

`astuner run` and `astuner warm-start` are forked from a process that has imported torch, which is most of a short run; what pip
would install is installed by uv, or is there already.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from python_server import PythonServer

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLIENT = Path(__file__).with_name("python_client.py")
LIMIT_S = 1200
Bash = Callable[[str, Path], str]
"""Runs a script in a directory, and returns what it printed."""


def read_blocks(page: Path, language: str) -> list[str]:
    """Return the texts of a page's blocks in a language."""
    return [text.strip() for named, text in BLOCK.findall(page.read_text(encoding="utf-8")) if named == language]


def run_bash(script: str, cwd: Path, *, home: Path, functions: str = "") -> str:
    """Run a script in an environment, with functions that stand in for programs; return what it printed."""
    # What a command prints of a path must not depend on how wide pytest's own terminal is.
    variables = {"COLUMNS": "200", "VIRTUAL_ENV": str(home), "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-c", f"set -e\n{functions}{script}"]
    ended = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 0, f"{script}\n{ended.stdout[-4000:]}{ended.stderr[-4000:]}"
    return ended.stdout + ended.stderr


def fork_long_commands(server: PythonServer) -> str:
    """Return the function `astuner`, whose long commands a server forks."""
    forked = f'{sys.executable} {CLIENT} {server.socket_path} -m astuner "$@"'
    return f'astuner() {{ case "$1" in run | warm-start) {forked} ;; *) command astuner "$@" ;; esac; }}\n'


def replace_pip(program: str) -> str:
    """Return the functions `pip` and `python`, with a program in the place of pip."""
    python = 'python() { if [ "$1 $2" = "-m pip" ]; then pip "${@:3}"; else command python "$@"; fi; }\n'
    return f'pip() {{ {program} "$@"; }}\n{python}'
