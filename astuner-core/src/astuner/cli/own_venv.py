"""Continuing a command in the virtual environment of its backbone: the same command again, in the Python there."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import click


class EnterVenv(Exception):
    """Raised to continue the command in another environment; the command line acts on it."""

    def __init__(self, directory: Path) -> None:
        """Hold the environment."""
        super().__init__(str(directory))
        self.directory = directory

    def replace_process(self, arguments: Sequence[str]) -> NoReturn:
        """Replace this process by one with the same number, directory, streams and arguments in the environment."""
        from astuner.settings.planning.own_venv import ENTERED

        scripts = self.directory / "bin"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
        environment["VIRTUAL_ENV"] = environment[ENTERED] = str(self.directory)
        environment["PATH"] = f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        program = ["-m", "astuner"] if Path(sys.argv[0]).name == "__main__.py" else [str(scripts / "astuner")]
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(scripts / "python", [str(scripts / "python"), *program, *arguments], environment)


def enter_venv_of(conf: Path, overrides: Sequence[str], backbone: str | None) -> None:
    """Raise `EnterVenv` if the backbone of a configuration has an environment that is ready and is not this one."""
    from astuner.settings.planning.own_venv import find_venv_of

    if (directory := find_venv_of(conf, overrides, backbone, partial(click.echo, err=True))) is not None:
        raise EnterVenv(directory)


def enter_venv(backbone: str, config_dir: Path) -> None:
    """Raise `EnterVenv` if a backbone has an environment that is ready and is not this one."""
    from astuner.settings.planning.own_venv import find_venv

    if (directory := find_venv(backbone, config_dir, partial(click.echo, err=True))) is not None:
        raise EnterVenv(directory)
