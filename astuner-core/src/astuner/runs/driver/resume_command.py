"""The command line that continues a run."""

from __future__ import annotations

import shlex

from astuner.runs.driver.run_request import RunRequest
from astuner.settings.config.secrets import redact_command


def format_resume_command(request: RunRequest) -> str:
    """Return what to type in the same directory. A secret that `--set` gave is not in it."""
    command = ["astuner", "run", "--conf", str(request.conf)]
    command += ["--backbone", request.backbone] if request.backbone else []
    for flag, values in (("--set", request.overrides), ("--with", request.services), ("--db", request.stop_at)):
        for value in values:
            command += [flag, value]
    return shlex.join(redact_command([*command, "--resume"]))
