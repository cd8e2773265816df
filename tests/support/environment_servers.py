"""Servers of environments, `astuner env serve`, started as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from attrs import field, frozen

from astuner.shared.processes.process_members import is_living
from astuner_devkit.waiting import until

TOKEN = "a-token-of-the-tests"


@frozen(kw_only=True)
class Server:
    """A running `astuner env serve`."""

    process: subprocess.Popen[str]
    url: str
    log: Path
    headers: Mapping[str, str] = field(factory=dict)

    @property
    def said(self) -> str:
        """Everything that it wrote, on both streams."""
        return self.log.read_text()

    def post(self, endpoint: str, **keys: Any) -> httpx.Response:
        """Ask as a foreign client does: with all five keys."""
        body = {"env_type": "default", "task_id": None, "instance_id": None, "messages": {}, "params": {}, **keys}
        return httpx.post(f"{self.url}/{endpoint}", json=body, headers=self.headers, timeout=60)

    def data(self, endpoint: str, **keys: Any) -> Any:
        """Return the data of an answer that has to be a good one."""
        answer = self.post(endpoint, **keys)
        assert answer.status_code == 200, answer.text
        assert answer.json()["success"] is True
        return answer.json()["data"]

    def accounts(self) -> dict[str, int]:
        """Return what it says of its instances."""
        found = httpx.get(f"{self.url}/envs", headers=self.headers, timeout=60).json()["data"]["instances"]
        return {name: count for name, count in found.items() if count}

    def processes(self) -> list[psutil.Process]:
        """Return the processes of its instances, without those that have ended and are about to be buried."""
        # Those below the one process that they are forked from.
        return [one for one in psutil.Process(self.process.pid).children(recursive=True)[1:] if is_living(one)]


Serve = Callable[..., Server]


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Start servers, each with its arguments, and end what is left of them."""
    with ExitStack() as stack:

        def start(*arguments: object, cwd: Path | None = None, token: str | None = TOKEN) -> Server:
            log = tmp_path_factory.mktemp("server") / "log"
            command = [sys.executable, "-m", "astuner", "env", "serve", *map(str, arguments)]
            if "--port" not in arguments:
                command += ["--port", "0"]
            environment = {name: value for name, value in os.environ.items() if name != "ASTUNER_ENV_TOKEN"}
            environment |= {"ASTUNER_ENV_TOKEN": token} if token else {}
            with log.open("w") as out:
                process = subprocess.Popen(command, stdout=out, stderr=out, text=True, cwd=cwd, env=environment)
            stack.callback(process.wait)
            stack.callback(process.kill)

            def address() -> str:
                lines = log.read_text().splitlines()
                assert process.poll() is None, lines
                return next((line.split()[-1] for line in lines if line.startswith("Starting server on ")), "")

            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return Server(process=process, url=f"http://{until(address, limit_s=120)}", log=log, headers=headers)

        yield start
