"""The same command again, in the Python of another environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ENTERED = "ASTUNER_ENTERED_VENV"
"""The environment that this process was started in by another one of astuner's."""


class EnterVenv(Exception):
    """Raised to continue the command in another environment; the command line acts on it."""

    def __init__(self, directory: Path) -> None:
        """Hold the environment."""
        super().__init__(str(directory))
        self.directory = directory

    def replace_process(self, arguments: Sequence[str]) -> NoReturn:
        """Replace this process by one with the same number, directory, streams and arguments in the environment."""
        scripts = self.directory / "bin"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
        environment["VIRTUAL_ENV"] = environment[ENTERED] = str(self.directory)
        environment["PATH"] = f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        program = ["-m", "astuner"] if Path(sys.argv[0]).name == "__main__.py" else [str(scripts / "astuner")]
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(scripts / "python", [str(scripts / "python"), *program, *arguments], environment)
