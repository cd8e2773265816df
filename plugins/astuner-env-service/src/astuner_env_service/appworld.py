"""The service `appworld`: AppWorld's environment server, configured by the user's environment variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from astuner.contract.errors import UsageError
from astuner.shared.services import Definition, Ready, Service
from astuner_env_service.section import READER

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo

DIRECTORY, SCRIPT = "APPWORLD_PATH", "APPWORLD_SCRIPT"
START_S = 1800.0
"""The first start unpacks AppWorld's data."""


def appworld(run_info: RunInfo) -> Definition:
    """Define the server from `APPWORLD_PATH`, a directory, and `APPWORLD_SCRIPT`, the command line to run there."""
    directory, script = os.environ.get(DIRECTORY, ""), os.environ.get(SCRIPT, "")
    if missing := [name for name, value in ((DIRECTORY, directory), (SCRIPT, script)) if not value]:
        raise UsageError(
            f"--with-appworld: {' and '.join(missing)} not set. {DIRECTORY} is the directory that holds AppWorld's environment "
            f'server, {SCRIPT} the command that starts it there, as "bash EnvService/env_sandbox/appworld.sh"'
        )
    if not Path(directory).expanduser().is_dir():
        raise UsageError(f"--with-appworld: {DIRECTORY}: the directory {directory} does not exist")
    url = _find_server(run_info)
    service = Service(
        # Existing command lines are written for bash.
        command=("bash", "-c", script),
        cwd=str(Path(directory).expanduser().absolute()),
        # The server does not flush its ready line, and its output is not a terminal here.
        env={"PYTHONUNBUFFERED": "1"},
        ready=Ready(url=f"{url}/healthz" if url else None, log="Starting server on"),
        timeout_s=START_S,
    )
    return Definition(service=service, url=url)


def _find_server(run_info: RunInfo) -> str | None:
    """Return the URL of the server that the tasks are read from, if there is one on this machine."""
    reader = run_info.config.task_reader
    url = reader.get_options(READER).get("env_url") if reader.type == READER else None
    if not isinstance(url, str) or urlsplit(url).hostname not in ("localhost", "127.0.0.1", "0.0.0.0"):
        return None
    return url.rstrip("/").replace("0.0.0.0", "127.0.0.1")
