"""The table of commands has a text for each, whoever wrote it, and imports none of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.settings.plugins.command_help import read_command_help

Install = Callable[..., Path]
HEAD = "import click\nraise RuntimeError('imported')\n"
COMMAND = "@click.command()\n@click.option('--n', help='How often.')\ndef hello(n):\n    '''Say\n    hello. Then leave.'''"


def help_of(install: Install, files: dict[str, str], target: str, **metadata: str) -> str:
    install("acme", files=files, entry_points={"astuner.commands": {"hello": target}}, metadata=metadata)
    told = read_command_help(target, "acme")
    assert "acme_cli" not in sys.modules
    return told


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (COMMAND, "Say hello."),
        ("@click.group(help='Greet people.')\ndef hello():\n    'Not this.'", "Greet people."),
        ("@click.command(help='Greet people.', short_help='Greet.')\ndef hello(): ...", "Greet."),
        ("hello = click.Group('hello', help='Greet people.')", "Greet people."),
        ("hello: click.Group = click.Group('hello', help='Greet people.')", "Greet people."),
        ("@click.command()\ndef other():\n    'Greet.'\nhello = other", "Greet."),
        ("if True:\n    @click.command()\n    def hello():\n        'Greet.'", "Greet."),
    ],
)
def test_the_help_is_read_off_the_source(install: Install, source: str, told: str) -> None:
    assert help_of(install, {"acme_cli.py": HEAD + source}, "acme_cli:hello", Summary="A package.") == told


def test_a_command_that_is_imported_from_elsewhere_is_followed(install: Install) -> None:
    files = {
        "acme_cli/__init__.py": HEAD + "from .inner import greet as hello",
        "acme_cli/inner.py": HEAD + "@click.command()\ndef greet():\n    'Greet.'",
    }
    assert help_of(install, files, "acme_cli:hello") == "Greet."


@pytest.mark.parametrize(
    "source", ["hello = made()", "def hello(: 3", "@click.command()\ndef hello(): ...", "from acme_cli import hello"]
)
def test_a_source_that_says_nothing_leaves_the_summary_of_the_distribution(install: Install, source: str) -> None:
    assert help_of(install, {"acme_cli.py": HEAD + source}, "acme_cli:hello", Summary="A package.") == "A package."


def test_a_module_that_is_not_there_leaves_the_summary(install: Install) -> None:
    assert help_of(install, {}, "acme_cli:hello", Summary="A package.") == "A package."


def test_nothing_is_said_where_nothing_is_known(install: Install) -> None:
    assert help_of(install, {}, "acme_cli:hello") == ""
