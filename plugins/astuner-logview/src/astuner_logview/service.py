"""The service `logview`: the viewer of a run, as long as the run lasts."""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING

from astuner.shared.processes import free_port
from astuner.shared.services import Definition, Ready, Service
from astuner_logview.run_ids import make_run_id
from astuner_logview.server.address import PUBLIC_URL, Address, read_public_url
from astuner_logview.show_command import TOKEN

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo

START_S = 60.0
"""Python imports slowly on a busy machine."""


def logview(run_info: RunInfo) -> Definition:
    """Define the viewer of the run, on a free port of 127.0.0.1.

    The address that is printed and those of the steps have the same token: whichever is opened first opens the viewer for that
    browser, and then all of them do.
    """
    port, token = free_port(), secrets.token_urlsafe(24)
    public = os.environ.get(PUBLIC_URL)
    address = read_public_url(public, port) if public else Address(host="127.0.0.1", port=port)
    url = f"{address}?open={token}"
    command = (sys.executable, "-m", "astuner", "logview", "show", str(run_info.directory), "--port", str(port), "--no-open")
    service = Service(
        command=command,
        env={TOKEN: token, "PYTHONUNBUFFERED": "1"},
        ready=Ready(port=port, log="^https?://"),
        timeout_s=START_S,
    )
    page = f"{url}#/r/{make_run_id(run_info.directory)}/s/{{step}}/worst"
    return Definition(service=service, url=url, step_url=page)
