"""The quickstart's project, run from a test as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil
from attrs import define
from listeners import watch_listeners

from astuner_devkit.waiting import until

START_S = 1500.0
"""Longest that a short run of a trainer, or the start of one, may take: on a busy machine the start alone takes minutes."""


@define
class QuickstartProject:
    """A directory with `tune.yaml`, and a state of its own for what its runs start."""

    home: Path
    state: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its commands."""
        return {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "ASTUNER_STATE_DIR": str(self.state),
        }

    @staticmethod
    def make(directory: Path) -> Path:
        """Write a project with its warm-started model into a new directory below this one; do not write to it.

        It has the logger that every install has, since environments without the others share it.
        """
        made = QuickstartProject(directory, directory / "state").cli("quickstart", "my-agent", "--no-run")
        assert made.returncode == 0, made.stderr
        conf = directory / "my-agent" / "tune.yaml"
        conf.write_text(conf.read_text().replace("logger: [console, tensorboard]", "logger: [console]"))
        return directory / "my-agent"

    @classmethod
    @contextmanager
    def copy_beside(cls, made: Path, directory: Path) -> Iterator[Self]:
        """Yield a copy of a project that shares its model; at the end, fail if anything it started is alive, and end it."""
        from astuner.shared.processes import attach, list_programs

        home, state = directory / "project", directory / "state"
        shutil.copytree(made, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
        (home / "model").symlink_to(made / "model")
        yield cls(home, state)
        before = os.environ.get("ASTUNER_STATE_DIR")
        os.environ["ASTUNER_STATE_DIR"] = str(state)
        try:
            left = list_programs()
            for record in left:
                attach(record).end()
        finally:
            os.environ.pop("ASTUNER_STATE_DIR")
            if before is not None:
                os.environ["ASTUNER_STATE_DIR"] = before
        assert [record.name for record in left] == []

    def command(self, *arguments: object) -> list[str]:
        """Return a command line of astuner's in this environment."""
        return [sys.executable, "-m", "astuner", *map(str, arguments)]

    def cli(self, *arguments: object, timeout: float = 400, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of astuner's to its end; `variables` are added to its environment."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.home,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def short(self, backbone: str, steps: int, **settings: Any) -> list[str]:
        """Return the command line of a run of `steps` small steps; double underscores in names become dots."""
        chosen = {
            "data.train_batch_size": 3,
            "rollout.num_repeat": 4,
            "trainer_common.total_training_steps": steps,
            "trainer_common.val_before_train": "false",
            "trainer_common.optim.lr_scheduler_type": "constant",
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        pairs = [f"--set={key}={value}" for key, value in chosen.items()]
        return ["run", "--conf", "tune.yaml", "--backbone", backbone, *pairs]

    def begin(self, *arguments: object, **variables: str) -> subprocess.Popen[bytes]:
        """Start a command of astuner's, with its output in the file `said`; `variables` are added to its environment."""
        with (self.home / "said").open("wb") as said:
            command, environment = self.command(*arguments), {**self.environment, **variables}
            return subprocess.Popen(command, cwd=self.home, env=environment, stdout=said, stderr=subprocess.STDOUT)

    def finish(self, running: subprocess.Popen[bytes], limit_s: float = START_S) -> dict[str, str]:
        """Wait for a command to succeed, and return the sockets that all processes of its run listened on."""
        found = watch_listeners(running, self.list_processes, limit_s)
        assert running.returncode == 0, (self.home / "said").read_text(encoding="utf-8", errors="replace")[-4000:]
        return found

    def list_processes(self) -> list[psutil.Process]:
        """Return the living processes of this project's runs, by the state directory in their environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("ASTUNER_STATE_DIR") == str(self.state):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def wait_for_process(self, word: str) -> psutil.Process:
        """Wait for a process with this word in its command and return it."""

        def find() -> psutil.Process | None:
            for process in self.list_processes():
                with suppress(psutil.Error):
                    if word in " ".join(process.cmdline()):
                        return process
            return None

        process = until(find, limit_s=START_S)
        assert process is not None
        return process

    @property
    def run(self) -> Path:
        """Its run directory."""
        return self.home / "launcher_record" / "calculator"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows of its metrics."""
        metrics = self.run / "metrics.jsonl"
        text = metrics.read_text(encoding="utf-8") if metrics.exists() else ""
        # The last line may be incomplete.
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of the training steps."""
        return [row for row in self.rows if "reward/mean" in row]

    @property
    def validations(self) -> list[float]:
        """The mean rewards of the validations."""
        return [row["val/reward/mean"] for row in self.rows if "val/reward/mean" in row]
