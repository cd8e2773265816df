"""The viewer that `astuner run --with-logview` starts, read while the run goes on, as its pages read it."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from attrs import frozen
from quickstart_project import START_S, QuickstartProject

from astuner_devkit.waiting import until

READY = re.compile(r"service 'logview': ready at (http://\S+)")
INDEXED_S = 120.0
"""Longest that the viewer may take to read what a run has just written, on a busy machine."""


@frozen
class RunViewer:
    """An open viewer."""

    client: httpx.Client
    origin: str

    def ask(self, address: str, **parameters: object) -> Any:
        """Return an answer of the API."""
        answer = self.client.get(f"{self.origin}{address}", params={name: str(value) for name, value in parameters.items()})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def check_trained_tokens(self, directory: Path) -> None:
        """Wait until the run has trained something, and assert that the viewer has the trainer's values of it.

        They must be those of a synchronous run: what is trained was sampled by the weights that it moves.
        """
        (run,) = until(lambda: self.ask("/api/runs")["runs"], INDEXED_S)
        assert run["path"] == str(directory.resolve())
        api = f"/api/runs/{run['id']}"
        step, episode = until(lambda: self._find_trained_episode(api), START_S)
        stream = self.ask(f"{api}/stream", id=episode)
        assert stream["record"]["text"] == f"recorded of step {step}"
        assert {one["name"]: one["recorded"] for one in stream["measures"]}["trainer_logprob"]
        tokens = self.ask(f"{api}/tokens", id=episode, chunk=0)
        trained = np.array(tokens["trained"], bool)
        trainer, sampler = (np.array(tokens["values"][name], float) for name in ("trainer_logprob", "logprob"))
        assert trained.any()
        np.testing.assert_array_equal(np.isfinite(trainer), trained)
        # One is stored in half precision.
        np.testing.assert_allclose(trainer[trained], sampler[trained], rtol=2e-3, atol=2e-3)

    def check_gone(self) -> None:
        """Assert that nothing listens where it was."""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(self.origin.rpartition(":")[2])))

    def _find_trained_episode(self, api: str) -> tuple[int, str] | None:
        """Return a step with metrics, and one of its episodes that has a gradient."""
        steps = self.ask(f"{api}/steps", split="train")["steps"]
        for step in [row["step"] for row in steps if row["time_s"] is not None]:
            found = self.ask(f"{api}/episodes", filter=f"split:train step:{step} signal>0", limit=1)["episodes"]
            if found:
                return step, found[0]["id"]
        return None


@contextmanager
def open_viewer(project: QuickstartProject, running: subprocess.Popen[bytes]) -> Iterator[RunViewer]:
    """Open the viewer of a run that was begun, at the address that the run prints before its first step."""
    said = project.home / "said"
    until(lambda: READY.search(said.read_text()) or project.rows or running.poll() is not None, START_S)
    ready = READY.search(said.read_text())
    assert ready is not None, said.read_text()
    with httpx.Client(follow_redirects=True, timeout=INDEXED_S) as client:
        assert client.get(ready[1]).status_code == 200
        yield RunViewer(client, ready[1].partition("/?")[0])
