"""The service `environments`: a server for the environment that the reader `env_service` names, as long as the run lasts."""

from __future__ import annotations

import json
import os
import secrets
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from astuner.contract.errors import UsageError
from astuner.shared.services import Definition, Ready, Service
from astuner_envs.access_token import TOKEN

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo

READER = "env_service"
START_S = 180.0
"""Some environments import slowly on a busy machine."""


def environments(run_info: RunInfo) -> Definition:
    """Define the server at the reader's `env_url`, on this machine; with a new token unless one is set.

    The environment gets the run's section `environment.NAME`, as when played in process.
    """
    reader = run_info.config.task_reader
    section = reader.get_options(READER)
    name, url = section.get("env_type"), section.get("env_url", "http://127.0.0.1:8080")
    if not isinstance(name, str) or not isinstance(url, str):
        raise UsageError(
            f"--with environments: set task_reader.{READER}.env_type to the environment to serve (`astuner env list`)"
        )
    place = urlsplit(url)
    if place.scheme != "http" or place.hostname not in ("127.0.0.1", "localhost"):
        raise UsageError(f"--with environments: task_reader.{READER}.env_url is {url}: a server is started on 127.0.0.1 only")
    port = place.port or 80
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    command: tuple[str, ...] = (
        sys.executable,
        "-m",
        "astuner",
        "env",
        "serve",
        "--env",
        name,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    )
    for key, value in run_info.config.environment.get_options(name).items():
        command += ("--set", f"{key}={json.dumps(value)}")
    service = Service(
        command=command,
        env={TOKEN: token, "PYTHONUNBUFFERED": "1"},
        ready=Ready(url=f"http://127.0.0.1:{port}/healthz", log="Starting server on"),
        timeout_s=START_S,
    )
    return Definition(service=service, exports={TOKEN: token}, url=url)
