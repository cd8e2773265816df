"""What `docs/environments.md` and the README show is so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.contract.schema import Message, Task
from astuner_devkit.command_line import run_command
from astuner_devkit.contracts import EnvironmentContract

REPOSITORY = Path(__file__).parents[3]
DOCUMENT = REPOSITORY / "docs" / "environments.md"
README = REPOSITORY / "plugins" / "astuner-envs" / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path, language: str) -> list[str]:
    return [text for named, text in BLOCK.findall(document.read_text(encoding="utf-8")) if named == language]


@pytest.fixture(scope="module")
def parrot(tmp_path_factory):
    home = tmp_path_factory.mktemp("parrot")
    (home / "parrot.py").write_text(blocks(DOCUMENT, "python")[0])
    return home


def test_the_environment_of_ones_own_is_served(serve, parrot):
    server = serve("--env", "./parrot.py:Parrot", cwd=parrot)
    assert server.data("get_env_profile", params={"split": "train"}) == ["hello", "goodbye"]
    begun = server.data("create", task_id="hello")
    instance_id = begun["info"]["instance_id"]
    assert begun["state"] == [{"role": "user", "content": "Say hello."}]
    assert server.data("step", instance_id=instance_id, messages={"content": "hello"})["is_terminated"]
    assert server.data("evaluate", instance_id=instance_id, params={"sparse": True}) == 1.0
    assert server.post("release", instance_id=instance_id).json()["success"]


class TestParrot(EnvironmentContract):
    def task(self) -> Task:
        return Task(task_id="hello")

    def actions(self) -> Sequence[Message]:
        return [{"role": "assistant", "content": "hello"}]

    @pytest.fixture(autouse=True)
    def _own(self) -> None:
        made: dict[str, Any] = {}
        exec(blocks(DOCUMENT, "python")[0], made)
        type(self).component = made["Parrot"]


# The two between are for verifiers, which has an environment of its own: `tests/verifiers`.
@pytest.mark.parametrize(("document", "number"), [(DOCUMENT, 0), (DOCUMENT, 1), (DOCUMENT, 4), (README, 0)])
def test_each_configuration_is_a_valid_one(tmp_path, document, number):
    pytest.importorskip("astuner_env_service", reason="comes with astuner-env-service")
    shown = yaml.safe_load(blocks(document, "yaml")[number])
    (tmp_path / "tasks.jsonl").write_text('{"main_query": "play"}\n')
    leads = {"use_agentscope_protocol": False, "user_workflow": None, **shown["astuner"].get("rollout", {})}
    shown["astuner"]["rollout"] = {**leads, "name": "scripted", "scripted": {"replies": ["yes"]}}
    shown["astuner"]["model"] = {"path": "."}
    (tmp_path / "shown.yaml").write_text(yaml.safe_dump(shown))
    result = run_command("config", "validate", "--conf", "shown.yaml", cwd=tmp_path)
    assert result.code == 0, result.err + result.out
