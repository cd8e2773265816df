"""OpenEnv's `/ws`, against a small server of the same words, and the real one where openenv-core is installed."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import DataError
from astuner.contract.schema import Task, WorkflowTask
from astuner.shared.install_hints import install_command
from astuner.shared.processes import free_port
from astuner_devkit.contracts import EnvironmentContract
from astuner_devkit.waiting import until
from astuner_env_service.openenv import OpenEnvEnvironment
from astuner_env_service.session import OpenEnvFailed

SERVER = Path(__file__).with_name("openenv_server.py")
KINDS = ["small", *(["real"] if find_spec("openenv") else [])]
Start = Callable[..., str]


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    processes = []

    def run(kind: str, places: int = 8, port: int = 0) -> str:
        port = port or free_port()
        command = [sys.executable, str(SERVER), kind, str(port), str(places)]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        until(lambda: accepts(port))
        return f"http://127.0.0.1:{port}"

    yield run
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest, start: Start) -> str:
    return start(request.param)


def made(url: str, task: Task | None = None, **options: Any) -> OpenEnvEnvironment:
    given = {"observation_field": "text", "timeout_s": 20.0, **options}
    workflow_task = WorkflowTask(task or Task(task_id="t"))
    return OpenEnvEnvironment(workflow_task, OpenEnvEnvironment.Options(env_url=url, **given))


def say(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


async def through(environment: OpenEnvEnvironment, *actions: str) -> tuple[Any, list[Any], float]:
    """Return what reset, each step and the end gave."""
    try:
        began = await environment.reset()
        return began, [await environment.step(say(action)) for action in actions], await environment.evaluate()
    finally:
        await environment.close()


def test_an_episode_is_played_in_a_session(url):
    began, steps, score = asyncio.run(through(made(url), "more", "stop"))
    assert began == [{"role": "user", "content": "begin"}]
    assert [step[0] for step in steps] == [[{"role": "user", "content": "more: 1"}], [{"role": "user", "content": "stop: 2"}]]
    assert [step[1:3] for step in steps] == [(0.5, False), (0.5, True)]
    assert steps[0][3]["observation"]["text"] == "more: 1"
    assert score == 1.0


def test_an_answer_may_be_the_action_itself(url):
    _, steps, score = asyncio.run(
        through(made(url, action_field=None, score="last"), '{"message": "add", "number": 4}', '{"message": "x"}')
    )
    assert [step[0][0]["content"] for step in steps] == ["add: 4", "x: 5"]
    assert score == 0.5


@pytest.mark.parametrize("answer", ["no json", "[1]", '{"massage": "x"}'])
def test_an_answer_that_is_no_action_is_told_to_the_model(url, answer):
    _, steps, _ = asyncio.run(through(made(url, action_field=None), answer, '{"message": "on"}'))
    assert steps[0][0][0]["content"].startswith("[error of the environment] ")
    assert steps[0][1:] == (0.0, False, {"is_action": False})
    assert steps[1][0][0]["content"] == "on: 1"


def test_a_failure_of_the_environment_ends_the_episode(url):
    with pytest.raises(OpenEnvFailed, match=r"ws://127.0.0.1:\d+/ws: step: .*the world broke"):
        asyncio.run(through(made(url), "raise"))


def test_siblings_begin_with_the_seed_of_their_task_unless_that_says_another(url):
    shown = {"observation_field": "seed"}
    seeds = [asyncio.run(through(made(url, Task(task_id=name), **shown)))[0][0]["content"] for name in ("a", "a", "b")]
    assert seeds[0] == seeds[1] != seeds[2]
    own = Task(task_id="a", metadata={"openenv": {"seed": 5}})
    assert asyncio.run(through(made(url, own, **shown)))[0][0]["content"] == "5"
    assert asyncio.run(through(made(url, reset={"seed": 9}, **shown)))[0][0]["content"] == "9"


def test_instructions_and_the_query_stand_before_the_first_observation(url):
    began, _, _ = asyncio.run(through(made(url, Task("Count.", task_id="t"), instructions="You count.")))
    assert [message["content"] for message in began] == ["You count.", "Count.", "begin"]


def test_a_field_that_observations_have_not_is_answered_with_those_they_have(url):
    with pytest.raises(DataError, match="observation_field: an observation has no 'txt'; it has: text, seed"):
        asyncio.run(through(made(url, observation_field="txt")))


def test_without_a_field_all_of_an_observation_is_shown(url):
    began, _, _ = asyncio.run(through(made(url, observation_field=None, reset={"seed": 1})))
    assert '"text": "begin"' in began[0]["content"]


def test_a_session_is_kept_alive_between_steps(url):
    async def idle() -> Any:
        environment = made(url, heartbeat_s=0.02)
        await environment.reset()
        await asyncio.sleep(0.2)
        try:
            return await environment.step(say("on"))
        finally:
            await environment.close()

    assert asyncio.run(idle())[0] == [{"role": "user", "content": "on: 1"}]


@pytest.mark.parametrize("kind", KINDS)
def test_where_all_places_are_taken_a_session_waits_for_one(start, kind):
    url = start(kind, places=1)

    async def both() -> Any:
        first, second = made(url), made(url)
        await first.reset()
        waiting = asyncio.create_task(second.reset())
        await asyncio.sleep(0.5)
        assert not waiting.done()
        await first.close()
        try:
            return await waiting
        finally:
            await second.close()

    assert asyncio.run(both()) == [{"role": "user", "content": "begin"}]


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(OpenEnvFailed, match=r"OpenEnv server ws://127.0.0.1:9/ws: could not be reached"):
        asyncio.run(through(made("ws://127.0.0.1:9/ws", timeout_s=0.1)))


def test_a_server_of_something_else_is_told_apart():
    code = "from http.server import *; ThreadingHTTPServer(('127.0.0.1', PORT), BaseHTTPRequestHandler).serve_forever()"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    other = subprocess.Popen([sys.executable, "-c", code.replace("PORT", str(port))], stderr=subprocess.DEVNULL)
    try:
        until(lambda: accepts(port))
        with pytest.raises(OpenEnvFailed, match="is not an OpenEnv server"):
            asyncio.run(through(made(f"http://127.0.0.1:{port}")))
    finally:
        other.kill()
        other.wait()


def test_a_session_that_is_lost_is_no_score(start):
    async def lose() -> None:
        environment = made(start("small"))
        await environment.reset()
        await environment._session._socket.close()
        try:
            await environment.step(say("on"))
        finally:
            await environment.close()

    with pytest.raises(OpenEnvFailed, match="step: the session was lost"):
        asyncio.run(lose())


def test_a_step_that_was_cancelled_does_not_answer_the_next_one(url):
    async def cancel() -> None:
        environment = made(url)
        await environment.reset()
        stepping = asyncio.create_task(environment.step(say("first")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stepping.cancel()
        await asyncio.gather(stepping, return_exceptions=True)
        try:
            await environment.step(say("second"))
        finally:
            await environment.close()

    with pytest.raises(OpenEnvFailed, match="the session is not open"):
        asyncio.run(cancel())


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_server_on_this_machine_is_reached_without_a_proxy(url, monkeypatch, name):
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    assert asyncio.run(through(made(url), "more"))[2] == 0.5


def test_a_missing_library_is_answered_with_the_command_that_brings_it():
    code = """
import asyncio, sys
sys.modules["websockets"] = sys.modules["websockets.asyncio.client"] = None
from astuner.contract.errors import PluginError
from astuner_env_service.session import Session
try:
    asyncio.run(Session("ws://127.0.0.1:1/ws", token=None, timeout_s=1.0, heartbeat_s=1.0).open({}))
except PluginError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert install_command("astuner-env-service") in shown


class TestOpenEnv(EnvironmentContract):
    component = "astuner_env_service.openenv:OpenEnvEnvironment"
    options: ClassVar[Mapping[str, Any]] = {"env_url": "http://127.0.0.1:1"}

    @pytest.fixture(autouse=True)
    def _server(self, url: str) -> None:
        type(self).options = {"env_url": url, "observation_field": "text"}
