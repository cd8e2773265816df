"""`docs/command_line.md` has every command of every package, as its help has it."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import click
from harness import REPOSITORY

from astuner.cli import astuner

DOCS = REPOSITORY / "docs"
PAGE = (DOCS / "command_line.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date():
    code = f"import sys; sys.path.insert(0, {str(DOCS)!r}); import write_command_line as w; sys.stdout.write(w.document())"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert made == PAGE, "run: python docs/write_command_line.py"


def test_every_command_that_is_installed_has_a_heading():
    context = click.Context(astuner)
    names = astuner.list_commands(context)
    assert {"run", "plugin", "config", "data", "env", "judge", "quickstart", "trace"} <= set(names)
    assert [name for name in names if f"### `astuner {name}" not in PAGE] == []


def test_every_package_with_a_command_is_named():
    projects = [
        tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in REPOSITORY.glob("plugins/*/pyproject.toml")
    ]
    with_commands = {project["name"] for project in projects if "astuner.commands" in project.get("entry-points", {})}
    assert len(with_commands) > 5
    assert sorted(name for name in with_commands if f"(`{name}`)" not in PAGE) == []
