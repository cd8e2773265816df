"""An environment of a scenario: what is installed in it, and its `astuner` command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen

from astuner_devkit.project import write_project

TASKS = [{"task_id": f"sum-{number}", "main_query": "What is 2 + 2?", "answer": "4"} for number in range(3)]

Wheel = Callable[..., Path]


OF_TOX = ("astuner-agents", "astuner-core", "astuner-devkit", "astuner-wire-apis")
"""What the environment of these tests has, which every environment below sees."""


@frozen
class Environment:
    """A virtual environment that holds astuner-core and what a scenario installs, and the `astuner` command in it."""

    home: Path
    tokenizer: Path
    """Made once, shared by the projects of all environments."""

    def install(self, *wheels: Path) -> None:
        """Install wheels offline and without their requirements: a scenario says what is missing."""
        self._uv("install", "--no-index", "--no-deps", *map(str, wheels))

    def uninstall(self, name: str) -> None:
        self._uv("uninstall", name)

    def astuner(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the environment's own directory, as a user does."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        offline = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        return subprocess.run(
            [str(self.home / "bin" / "astuner"), *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment | offline | variables,
            cwd=self.home,
            check=False,
            timeout=120,
        )

    def run(self, conf: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.astuner("run", "--conf", conf, *arguments, **variables)

    def listed(self) -> list[dict[str, object]]:
        """Return the rows of `plugin list` for what a scenario installs."""
        found = self.astuner("plugin", "list", "--json")
        assert (found.returncode, found.stderr) == (0, "")
        return [row for row in json.loads(found.stdout) if row["dist"] not in OF_TOX]

    def project(self, judge: str | None = None, *, settings: Mapping[str, object] | None = None) -> Path:
        """Write a project that the backbone `debug` plays without a model, and return its YAML."""
        directory = self.home / "project"
        directory.mkdir()
        (directory / "model").symlink_to(self.tokenizer)
        return write_project(directory, judge, tasks=TASKS, settings=settings)

    def _uv(self, action: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "uv", "pip", action, "--python", str(self.home / "bin" / "python"), *arguments]
        # The pins of the environment of the tests are not those of a scenario.
        variables = {name: value for name, value in os.environ.items() if name != "UV_CONSTRAINT"}
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
