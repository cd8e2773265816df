"""`--with-logview`: the viewer of a run, while it lasts."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from astuner.cli.run import RunRequest, start_run
from astuner.cli.run import run as run_command
from astuner.shared.processes import list_programs
from astuner_devkit.project import write_project
from astuner_logview.run_ids import make_run_id

LOOKS = '''
"""An agent that opens the viewer of its own run, as a user would meanwhile."""

import json
from pathlib import Path

import httpx
from astuner import WorkflowOutput
from astuner.shared.processes import list_programs


class Agent:
    async def execute(self, workflow_task, tuner):
        (viewer,) = [one for one in list_programs() if one.name == "logview"]
        async with httpx.AsyncClient(follow_redirects=True, timeout=60) as client:
            page = await client.get(viewer.url)
            runs = await client.get(viewer.url.partition("?")[0] + "api/runs")
        found = {"status": page.status_code, "title": "<title>" in page.text, "runs": runs.json()["runs"], "url": viewer.url}
        Path("found.json").write_text(json.dumps(found))
        return WorkflowOutput(reward=1.0)
'''


@pytest.mark.parametrize(("public", "place"), [("", "http://127.0.0.1:"), ("http://localhost:{port}", "http://localhost:")])
def test_the_viewer_of_a_run_lives_as_long_as_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], public: str, place: str
) -> None:
    monkeypatch.setenv("ASTUNER_LOGVIEW_PUBLIC_URL", public)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ASTUNER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(LOOKS)
    conf = write_project(tmp_path, workflow="./agent.py:Agent")
    outcome = start_run(RunRequest(conf=conf, backbone="debug", services=["logview"]))
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["status"], found["title"]) == (200, True)
    assert found["url"].startswith(place)
    assert [(row["id"], row["status"]) for row in found["runs"]] == [(make_run_id(outcome.directory), "running")]
    assert f"service 'logview': ready at {found['url']}\n" in capsys.readouterr().err
    assert list_programs() == []
    port = int(re.search(r":(\d+)/", found["url"])[1])  # type: ignore[index]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_the_option_is_one_of_astuner_run() -> None:
    text = CliRunner().invoke(run_command, ["--help"]).output
    assert re.search(r"--with-logview\s+--with logview: the viewer of this run", text)
