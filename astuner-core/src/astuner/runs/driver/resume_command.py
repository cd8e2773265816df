"""The command line that continues a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from astuner.settings.config.secrets import redact_command


def format_resume_command(
    conf: Path, backbone: str | None, overrides: Sequence[str], services: Sequence[str], stop_at: Sequence[str]
) -> str:
    """Return what to type in the same directory. A secret that `--set` gave is not in it."""
    command = ["astuner", "run", "--conf", str(conf), *(["--backbone", backbone] if backbone else [])]
    for flag, values in (("--set", overrides), ("--with", services), ("--db", stop_at)):
        for value in values:
            command += [flag, value]
    return shlex.join(redact_command([*command, "--resume"]))
