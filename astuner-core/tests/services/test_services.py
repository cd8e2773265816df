"""Services of a run: started, found again, watched and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import AstunerError, Interrupted, RunFailed, UsageError
from astuner.runs.driver.launch import evaluate_run, start_run
from astuner.runs.driver.run_request import RunRequest
from astuner.settings.config.model import Ready, Service
from astuner.shared.processes import attach, free_port, list_programs
from astuner.shared.processes.ports import accepts
from astuner.shared.services import Definition, running
from astuner_devkit import until
from astuner_devkit.project import write_project

SLEEPS = "import time\nclass Agent:\n    async def execute(self, workflow_task, tuner):\n        {does}\n"


def project(tmp_path: Path, services: Mapping[str, Any], **more: Any) -> Path:
    return write_project(tmp_path, settings={"services": services}, **more)


def server(port: int) -> str:
    return f"exec {sys.executable} -m http.server {port} --bind 127.0.0.1"


def log_of(conf: Path, name: str) -> str:
    return (conf.parent / "launcher_record" / f"{conf.stem}.debug" / "logs" / f"service-{name}.log").read_text()


def names() -> list[str]:
    return [record.name for record in list_programs()]


def agent(tmp_path: Path, does: str) -> str:
    (tmp_path / "agent.py").write_text(SLEEPS.format(does=does))
    return "./agent.py:Agent"


def test_a_service_is_started_with_the_run_and_ended_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inside").mkdir()
    given = {"command": "pwd; echo $WORD; sleep 60", "cwd": "inside", "env": {"WORD": "hello"}, "ready": {"log": "hello"}}
    conf = project(tmp_path, {"web": given})
    start_run(RunRequest(conf=conf, services=["web"]))
    assert f"{tmp_path}/inside\nhello\n" in log_of(conf, "web")
    assert "service 'web': ready" in capsys.readouterr().err
    assert list_programs() == []


def test_a_service_that_nobody_asks_for_is_not_started(tmp_path: Path) -> None:
    conf = project(tmp_path, {"web": {"command": "sleep 60"}})
    start_run(RunRequest(conf=conf))
    assert not (tmp_path / "launcher_record" / "project.debug" / "logs" / "service-web.log").exists()


def test_an_evaluation_can_have_services_too(tmp_path: Path) -> None:
    conf = project(tmp_path, {"web": {"command": "echo up; sleep 60", "ready": {"log": "up"}}})
    evaluate_run(RunRequest(conf=conf, services=["web"]))
    assert (tmp_path / "launcher_record" / "project.eval" / "logs" / "service-web.log").exists()


def test_a_service_ends_with_a_run_that_fails(tmp_path: Path) -> None:
    workflow = agent(tmp_path, "raise ValueError('no')")
    conf = project(tmp_path, {"web": {"command": "sleep 60"}}, workflow=workflow, judge="astuner_devkit.judges:ExactAnswer")
    with pytest.raises(RunFailed):
        start_run(RunRequest(conf=conf, overrides=["rollout.max_retries=0"], services=["web"]))
    assert "service 'web'" in log_of(conf, "web")
    assert list_programs() == []


def test_a_service_ends_with_a_run_that_is_interrupted(tmp_path: Path) -> None:
    workflow = agent(tmp_path, "import asyncio, os, signal; os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(60)")
    conf = project(tmp_path, {"web": {"command": "sleep 60"}}, workflow=workflow, judge="astuner_devkit.judges:ExactAnswer")
    with pytest.raises(Interrupted):
        start_run(RunRequest(conf=conf, services=["web"]))
    assert "service 'web'" in log_of(conf, "web")
    assert list_programs() == []


def test_ctrl_c_while_a_service_starts_ends_it_and_the_run(tmp_path: Path) -> None:
    conf = project(tmp_path, {"web": {"command": "sleep 60", "ready": {"log": "never"}}})

    def interrupt() -> None:
        until(lambda: "web" in names())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(Interrupted, match="stopped while service 'web' was starting"):
        start_run(RunRequest(conf=conf, services=["web"]))
    assert list_programs() == []


def test_a_service_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    conf = project(tmp_path, {"web": {"command": "sleep 60", "ready": {"log": "never"}}})
    command = [sys.executable, "-m", "astuner", "run", "--conf", str(conf), "--with", "web"]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        until(lambda: "web" in names())
        [service] = [one for one in list_programs() if one.name == "web"]
        assert attach(service).members()
    finally:
        run.kill()
        run.wait()
    until(lambda: not attach(service).members())
    assert list_programs() == []


def test_one_that_is_never_ready_fails_the_run_with_its_last_lines(tmp_path: Path) -> None:
    given = {"command": "echo thinking; sleep 60", "ready": {"port": free_port()}, "timeout_s": 2.0}
    conf = project(tmp_path, {"web": given})
    with pytest.raises(AstunerError, match=r"(?s)service 'web' was not ready after 2 s: port .*thinking") as raised:
        start_run(RunRequest(conf=conf, services=["web"]))
    assert raised.value.exit_code == 1
    assert list_programs() == []


def test_an_unknown_name_is_told_with_what_there_is(tmp_path: Path) -> None:
    conf = project(tmp_path, {"webserver": {"command": "sleep 60"}})
    with pytest.raises(UsageError, match=r"has webserver; installed are .*ray \(astuner-core .*Did you mean 'webserver'"):
        start_run(RunRequest(conf=conf, services=["websever"]))
    assert not (tmp_path / "launcher_record").exists()


@pytest.mark.parametrize("command", ["nonesuch --port 1", ["nonesuch", "--port", "1"]])
def test_a_command_that_does_not_exist_is_a_mistake_of_the_configuration(tmp_path: Path, command: str | list[str]) -> None:
    conf = project(tmp_path, {"web": {"command": command, "ready": {"log": "up"}}})
    with pytest.raises(UsageError, match="nonesuch"):
        start_run(RunRequest(conf=conf, services=["web"]))


def test_what_answers_already_is_used_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    other = subprocess.Popen(["/bin/sh", "-c", server(port)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: accepts(port))
        conf = project(tmp_path, {"web": {"command": "exit 1", "ready": {"url": f"http://127.0.0.1:{port}/"}}})
        start_run(RunRequest(conf=conf, services=["web"]))
        assert other.poll() is None
        assert "answers already, so nothing is started" in capsys.readouterr().err
    finally:
        other.kill()
        other.wait()


def test_a_service_of_another_run_is_named_with_that_run(tmp_path: Path) -> None:
    port, said, warned = free_port(), [], []
    definition = Definition(service=Service(command=server(port), ready=Ready(port=port)))

    def place(name: str) -> running.ServiceHost:
        (tmp_path / name / "logs").mkdir(parents=True)
        return running.ServiceHost(directory=tmp_path / name, say=said.append, warn=warned.append, stopped=lambda: False)

    with ExitStack() as stack:
        for name in ("first", "second"):
            stack.enter_context(running.run_services({"web": definition}, place(name)))
        assert f"the run in {tmp_path / 'first'} started it" in said[-1]
        [record] = list_programs()
        attach(record).end()
        until(lambda: len(warned) == 2)


def test_a_kept_service_is_found_again_by_the_next_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = project(tmp_path, {"web": {"command": "echo up; sleep 60", "ready": {"log": "up"}, "keep": True}})
    start_run(RunRequest(conf=conf, services=["web"]))
    [first] = list_programs()
    start_run(RunRequest(conf=conf, overrides=[f"experiment_dir={tmp_path}/next"], services=["web"]))
    [second] = list_programs()
    assert first == second
    assert f"reused ({first.id}" in capsys.readouterr().err


def test_two_runs_that_begin_together_share_one_kept_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = running._find_kept

    def look_long(name: str, digest: str) -> Any:
        found = look(name, digest)
        time.sleep(0.5)
        return found

    monkeypatch.setattr(running, "_find_kept", look_long)
    web = Definition(service=Service(command="echo up; sleep 60", ready=Ready(log="up"), keep=True))

    def begin(number: int) -> None:
        home = tmp_path / str(number)
        (home / "logs").mkdir(parents=True)
        with running.run_services({"web": web}, running.ServiceHost(directory=home, say=str, warn=str, stopped=lambda: False)):
            pass

    runs = [threading.Thread(target=begin, args=(number,)) for number in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert names() == ["web"]


def test_a_kept_service_of_another_configuration_is_not_used(tmp_path: Path) -> None:
    conf = project(tmp_path, {"web": {"command": "sleep 60", "keep": True}})
    start_run(RunRequest(conf=conf, services=["web"]))
    settings = [f"experiment_dir={tmp_path}/next", "services.web.command=sleep 61"]
    with pytest.raises(UsageError, match="astuner stop"):
        start_run(RunRequest(conf=conf, overrides=settings, services=["web"]))


def test_a_kept_service_that_is_never_ready_is_not_kept(tmp_path: Path) -> None:
    conf = project(tmp_path, {"web": {"command": "sleep 60", "ready": {"log": "up"}, "timeout_s": 0.3, "keep": True}})
    with pytest.raises(AstunerError):
        start_run(RunRequest(conf=conf, services=["web"]))
    assert list_programs() == []


def test_one_that_dies_during_the_run_is_told_and_the_run_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    workflow = agent(
        tmp_path,
        f"import asyncio; open('{tmp_path}/die', 'w').close(); await asyncio.sleep(8); from astuner import WorkflowOutput; "
        "return WorkflowOutput(reward=1.0)",
    )
    command = "echo up; while [ ! -e die ]; do sleep 0.1; done; echo out of memory; exit 9"
    conf = project(tmp_path, {"web": {"command": command, "ready": {"log": "up"}}}, workflow=workflow)
    assert start_run(RunRequest(conf=conf, services=["web"])).exit_code == 0
    said = capfd.readouterr()
    assert "service 'web' ended during the run (exit status 9)" in said.out + said.err
    assert "out of memory" in said.out + said.err
