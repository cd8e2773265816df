"""The reader and the environment `env_service`, against a server as others have written them."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import evolve
from foreign_env import Control, control_of, foreign_server

from astuner.contract.errors import ConfigError, DataError
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Message, Task, WorkflowTask
from astuner.settings.config.components import TaskReader
from astuner.settings.config.env_variables import Environment as EnvironmentSection
from astuner.settings.config.model import Config
from astuner.settings.plugins.options import build_options
from astuner_devkit.contracts import EnvironmentContract, ReaderContract
from astuner_devkit.run_infos import run_info
from astuner_env_service.client import EnvServiceFailed
from astuner_env_service.environment import EnvServiceEnvironment
from astuner_env_service.reader import EnvServiceReader, find_env_type
from astuner_env_service.section import EnvServiceOptions

MORE = {"role": "assistant", "content": "more"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with foreign_server() as address:
        yield address


@pytest.fixture
def control(url: str) -> Control:
    return control_of(url)


def reader(url: str, **options: Any) -> EnvServiceReader:
    return EnvServiceReader(EnvServiceOptions(**{"env_type": "counter", "env_url": url, **options}))


def in_run(home: Path, url: str, *, reader: str = "env_service", **section: Any) -> RunInfo:
    """Return a run whose reader's section names the server."""
    tasks = TaskReader(type=reader, sections={"env_service": {"env_url": url, "env_type": "counter", **section}})
    return run_info(home, config=evolve(Config(), task_reader=tasks))


def environment(info: RunInfo, task: Task | None = None, **options: Any) -> EnvServiceEnvironment:
    workflow_task = WorkflowTask(task or Task(task_id="2", env_type="counter"))
    return EnvServiceEnvironment.from_run(workflow_task, EnvServiceEnvironment.Options(**options), info)


def play(environment: EnvServiceEnvironment, *actions: Message) -> tuple[Any, list[Any], float]:
    async def whole() -> tuple[Any, list[Any], float]:
        try:
            began = await environment.reset()
            return began, [await environment.step(action) for action in actions], await environment.evaluate()
        finally:
            await environment.close()

    return asyncio.run(whole())


def test_the_servers_ids_become_tasks(url):
    tasks = list(reader(url, params={"level": 1}).read("train"))
    assert [task.task_id for task in tasks] == ["1", "2", "3"]
    assert {task.env_type for task in tasks} == {"counter"}
    told = {"env_type": "counter", "split": "train", "env_action_preference": "code", "params": {"level": 1}}
    assert tasks[0].metadata == {"env_service": told}


def test_the_validation_split_is_the_servers_dev_by_default(url):
    assert [task.task_id for task in reader(url).read("validation")] == ["7"]


def test_parameters_are_sent_beside_the_split(url, control):
    list(reader(url, params={"level": 1}).read("train"))
    assert control()["received"][0][1]["params"] == {"level": 1, "split": "train"}


def test_the_server_is_asked_once_per_split(url, control):
    twice = reader(url, limit=2)
    assert [len(list(twice.read("train"))) for _ in range(2)] == [2, 2]
    assert len(control()["received"]) == 1


def test_the_reader_may_be_used_inside_of_an_event_loop(url):
    async def inside() -> int:
        return len(list(reader(url).read("train")))

    assert asyncio.run(inside()) == 3


INTERRUPTED = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what runs in the background ignore it
from astuner_env_service.reader import EnvServiceReader
from astuner_env_service.section import EnvServiceOptions

async def inside():
    read()

def read():
    list(EnvServiceReader(EnvServiceOptions(env_type="counter", env_url=sys.argv[1])).read("train"))

read() if sys.argv[2] == "outside" else asyncio.run(inside())
"""


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_ctrl_c_ends_the_wait_for_a_server_that_is_silent(where):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-c", INTERRUPTED, url, where]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as asking, silent.accept()[0]:
            asking.send_signal(signal.SIGINT)
            try:
                # Well below what the reader itself waits.
                _, said = asking.communicate(timeout=15)
            finally:
                asking.kill()
    assert "KeyboardInterrupt" in said, said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"training_split": "empty"}, "training_split: .* has no tasks of 'counter' in the split 'empty'"),
        ({"training_split": "twice"}, "training_split: .* lists the task '5' twice in the split 'twice'"),
        ({"training_split": "nope"}, "/get_env_profile answered 400: Instance or split not found"),
    ],
)
def test_a_split_that_cannot_be_used_is_named(url, options, said):
    with pytest.raises(DataError, match=said):
        list(reader(url, **options).read("train"))


def test_the_options_have_the_documented_defaults():
    options = EnvServiceOptions()
    assert (options.env_type, options.env_url, options.env_action_preference) == ("appworld", "http://127.0.0.1:8080", "code")
    assert (options.training_split, options.validation_split) == ("train", "dev")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"env_url": "localhost:8080"}, "env_url"),
        ({"env_type": ""}, "env_type"),
        ({"limit": 0}, "limit"),
        ({"env_action_preference": "x"}, "env_action_preference"),
    ],
)
def test_bad_options_are_refused(values, key):
    with pytest.raises(ConfigError, match=f"section.{key}"):
        build_options(EnvServiceReader, values, key="section")


def test_where_an_environment_of_the_servers_name_is_installed_the_server_plays_all_the_same():
    assert find_env_type("appworld") == "appworld"
    assert find_env_type("openenv") == "env_service"


def test_every_message_reward_and_info_is_passed_on(url, tmp_path, control):
    began, steps, score = play(environment(in_run(tmp_path, url)), MORE, {**MORE, "content": "stop"})
    assert [message["content"] for message in began] == ["Count.", "Say more or stop."]
    assert [message["content"] for message in steps[0][0]] == ["You said more.", "That makes 1."]
    assert steps[0][1:] == (0.5, False, {"count": 1, "kept": [1, 2]})
    assert steps[1][2] is True
    assert score == 0.5
    assert control()["instances"] == {}


def test_the_score_may_be_a_sparse_one(url, tmp_path):
    assert play(environment(in_run(tmp_path, url), sparse=True), MORE)[2] == 1.0


def test_options_win_over_the_task_and_that_over_the_readers_section(url, tmp_path, control):
    dead = "http://127.0.0.1:9"
    told = {"env_url": url, "env_type": "from the task", "params": {"b": "task", "c": "task"}}
    task = Task(task_id="2", metadata={"env_service": told})
    info = in_run(tmp_path, dead, env_type="from the section", params={"a": "section", "b": "section", "c": "section"})
    play(environment(info, task, params={"c": "options"}))
    play(environment(info, task, env_url=url, env_type="from the options"))
    made = [body for name, body, *_ in control()["received"] if name == "create"]
    assert [body["env_type"] for body in made] == ["from the task", "from the options"]
    assert made[0]["params"] == {"a": "section", "b": "task", "c": "options"}


def test_a_run_with_another_reader_names_the_server_in_the_environments_options(url, tmp_path):
    info = run_info(tmp_path, config=evolve(Config(), environment=EnvironmentSection(environment_type="env_service")))
    assert play(environment(info, env_url=url, env_type="counter"), MORE)[2] == 0.25


def test_the_token_goes_to_servers_of_the_configuration_only(url, tmp_path, control, monkeypatch):
    monkeypatch.setenv("ASTUNER_ENV_TOKEN", "secret")
    play(environment(in_run(tmp_path, url)))
    named_by_data = Task(task_id="2", metadata={"env_service": {"env_url": url}})
    play(environment(in_run(tmp_path, "http://127.0.0.1:9"), named_by_data))
    authorizations = [authorization for name, _, _, authorization in control()["received"] if name == "create"]
    assert authorizations == ["Bearer secret", None]


@pytest.mark.parametrize("told", ["text", {"env_url": 3}, {"params": []}])
def test_a_task_that_names_its_server_oddly_is_refused(url, tmp_path, told):
    with pytest.raises(DataError, match=r"task '2': metadata\['env_service'\] is "):
        environment(in_run(tmp_path, url), Task(task_id="2", metadata={"env_service": told}))


def test_tools_are_what_the_servers_info_names(url, tmp_path, control):
    tool = {"type": "function", "function": {"name": "f"}}
    answer = {"state": [{"role": "user", "content": "x"}], "info": {"tools": [tool]}}
    control(faults=[{"at": "create", "status": 200, "answer": {"success": True, "data": answer}}])

    async def offered() -> tuple[Any, Any]:
        made = environment(in_run(tmp_path, url))
        before = list(made.tools)
        try:
            await made.reset()
            return before, list(made.tools)
        finally:
            await made.close()

    assert asyncio.run(offered()) == ([], [tool])


def test_an_episode_that_fails_releases_its_instance(url, tmp_path, control):
    with pytest.raises(EnvServiceFailed, match="the world broke"):
        play(environment(in_run(tmp_path, url)), {**MORE, "content": "raise"})
    assert control()["instances"] == {}


def test_a_release_that_fails_is_said_with_what_becomes_of_the_instance(url, tmp_path, control):
    control(faults=[{"at": "release", "when": "before", "status": 400}])
    with pytest.raises(
        EnvServiceFailed, match=r"/release answered 400: .*The server keeps instance astuner-\w+ until it is idle"
    ):
        play(environment(in_run(tmp_path, url)))
    left = list(control()["instances"])
    assert len(left) == 1


class TestReader(ReaderContract):
    component = "astuner_env_service.reader:EnvServiceReader"
    options: ClassVar[Mapping[str, Any]] = {"env_url": "http://127.0.0.1:1"}
    splits = ("train", "validation")

    @pytest.fixture(autouse=True)
    def _server(self, url: str) -> None:
        type(self).options = {"env_url": url, "env_type": "counter"}


class TestReaderWithoutValidation(TestReader):
    splits = ("train",)

    @pytest.fixture(autouse=True)
    def _server(self, url: str) -> None:
        type(self).options = {"env_url": url, "env_type": "counter", "validation_split": None}


class TestEnvironment(EnvironmentContract):
    component = "astuner_env_service.environment:EnvServiceEnvironment"
    options: ClassVar[Mapping[str, Any]] = {"env_url": "http://127.0.0.1:1"}

    @pytest.fixture(autouse=True)
    def _server(self, url: str) -> None:
        type(self).options = {"env_url": url, "env_type": "counter", "heartbeat_s": 0.05}

    def task(self) -> Task:
        return Task(task_id="2", env_type="counter")


def test_the_section_says_how_actions_are_read() -> None:
    assert EnvServiceReader.prefer_actions(EnvServiceOptions(env_action_preference="box")) == "box"
