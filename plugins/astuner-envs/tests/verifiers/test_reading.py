"""The reader `verifiers`: the tasks of an environment, and what is wrong with a configuration before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import DataError, PluginError
from astuner.contract.schema import Split, Task
from astuner.settings.plugins.options import build_options
from astuner_devkit.contracts import ReaderContract
from astuner_envs.verifiers import loading
from astuner_envs.verifiers.reader import VerifiersReader

pytest.importorskip("verifiers.v1", reason="comes with the extra verifiers")

LOCAL = {"runtime": {"type": "subprocess"}}
VOWELS = {"taskset": {"id": "vowels"}, "agent": LOCAL}


class TestVerifiersReader(ReaderContract):
    component = "astuner_envs.verifiers.reader:VerifiersReader"
    splits = ("train", "validation")
    options: ClassVar[Mapping[str, Any]] = {"env": VOWELS, "validation": {"taskset": {"vowels": "ao"}, "select": {"limit": 1}}}


def open_reader(env: Any = VOWELS, **options: Any) -> VerifiersReader:
    return VerifiersReader(build_options(VerifiersReader, {"env": env, **options}, key="astuner.task_reader.verifiers"))


def read(split: Split, env: Any = VOWELS, **options: Any) -> list[Task]:
    return list(open_reader(env, **options).read(split))


def test_tasks_carry_the_environment_and_their_data():
    first, *others = read("train", success_reward=2.0)
    assert (first.task_id, first.main_query, len(others)) == ("vowel-a-0", "Say a.", 4)
    assert [message["content"] for message in first.init_messages] == ["You are brief.", "Say a."]
    record = first.metadata["verifiers"]
    assert (record["data"]["vowel"], record["data"]["idx"], record["success_reward"]) == ("a", 0, 2.0)
    assert record["environment"]["taskset"] == {
        "id": "vowels",
        "task": {"judges": [], "stops": {}, "metrics": {}, "rewards": {}},
        "vowels": "aeiou",
    }


def test_splits_choose_rows_and_options_of_the_taskset():
    options = {"training": {"select": {"include": {"idx": ["1:3"]}}}, "validation": {"taskset": {"vowels": "xy"}}}
    assert [task.main_query for task in read("train", **options)] == ["Say e.", "Say i."]
    assert [task.main_query for task in read("validation", **options)] == ["Say x.", "Say y."]


def test_the_library_is_among_the_revisions():
    assert open_reader().list_revisions()["verifiers"].startswith("0.4")


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"taskset": {"id": "no-such-taskset"}}, "astuner.task_reader.verifiers.env: taskset 'no-such-taskset' not found"),
        ({**VOWELS, "agnet": {}}, "astuner.task_reader.verifiers.env.agnet: "),
        ({**VOWELS, "taskset": {"id": "vowels", "vowels": 3}}, "env.taskset.vowels: "),
        ({"taskset": {"id": "vowels"}}, "env.agent.runtime.type: 'prime' rents a sandbox .* PRIME_API_KEY; .*subprocess"),
        ({**VOWELS, "agent": {"runtime": {"type": "docker"}}}, "env.agent.runtime.type: 'docker' .* not on PATH"),
        ({**VOWELS, "agent": {"runtime": {"type": "modal"}}}, "env.agent.runtime.type: 'modal' needs the package modal"),
        (
            {**VOWELS, "agent": {**LOCAL, "harness": {"id": "null"}}},
            "env.agent.harness: .* 'null' are started with uv.*pip install uv",
        ),
        ({**VOWELS, "agent": {**LOCAL, "harness": {"id": "codex"}}}, "env.agent: Harness 'codex' needs a container"),
        (
            {**VOWELS, "agent": {**LOCAL, "model": "gpt-6"}},
            "env.agent.model: 'gpt-6' is another model .* env.agent.client|client",
        ),
        ({**VOWELS, "agent": {**LOCAL, "retries": {"max_retries": 2}}}, "env.agent.retries: .*rollout.max_retries"),
        (
            {
                **VOWELS,
                "agent": {**LOCAL, "client": {"type": "eval", "base_url": "https://api.example.org/v1", "api_key_var": "NO_KEY"}},
            },
            "env.agent.client: https://api.example.org/v1 needs a key: set the environment variable NO_KEY",
        ),
        ({"taskset": {"id": "duel"}}, "training.select: taskset 'duel' never ends"),
    ],
)
def test_a_mistake_is_reported_with_its_place_before_anything_starts(env, message, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(DataError, match=message):
        open_reader(env)


def test_a_selection_that_does_not_exist_is_reported_with_its_place():
    with pytest.raises(DataError, match=r"astuner.task_reader.verifiers.training.select: .*"):
        open_reader(training={"select": {"limit": 0}})


def test_a_taskset_that_cannot_load_is_reported(monkeypatch):
    reader = open_reader()
    import vowels

    monkeypatch.setattr(vowels.VowelsTaskset, "load", lambda self: 1 / 0)
    with pytest.raises(DataError, match="taskset 'vowels' cannot load: ZeroDivisionError"):
        list(reader.read("train"))


def test_without_the_library_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr(loading, "is_installed", lambda package: False)
    with pytest.raises(PluginError, match=r"reader 'verifiers' needs the package verifiers: pip install .*astuner-envs"):
        open_reader()
