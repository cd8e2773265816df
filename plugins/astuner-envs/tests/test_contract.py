"""The worlds keep the contract of environments, the reader that of readers, and the package that of packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from astuner.contract.schema import Message, Task
from astuner_devkit.contracts import CommandContract, EnvironmentContract, PackageContract, ReaderContract

TASK = Task(task_id="train-7")


def say(*texts: str) -> Sequence[Message]:
    return [{"role": "assistant", "content": text} for text in texts]


class TestCountdown(EnvironmentContract):
    component = "astuner_envs.worlds.countdown:Countdown"

    def task(self) -> Task:
        return TASK

    def actions(self) -> Sequence[Message]:
        return say("1 + 1", "I do not know", "2 ** 8")


class TestCalculator(EnvironmentContract):
    component = "astuner_envs.worlds.calculator:Calculator"

    def task(self) -> Task:
        return TASK

    def actions(self) -> Sequence[Message]:
        function = {"name": "calculate", "arguments": '{"expression": "2 * 3"}'}
        return [
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
            *say("7"),
        ]


class TestFrozenLake(EnvironmentContract):
    component = "astuner_envs.worlds.frozen_lake:FrozenLake"

    def prepare(self, directory: Any) -> None:
        pytest.importorskip("gymnasium", reason="comes with the extra gymnasium")

    def task(self) -> Task:
        return TASK

    def actions(self) -> Sequence[Message]:
        return say("right", "I go down", "nowhere")


class TestASlipperyLake(TestFrozenLake):
    options: ClassVar[Mapping[str, Any]] = {"slippery": True, "size": 8}


class TestEnvironmentTasks(ReaderContract):
    component = "astuner_envs.reader:EnvironmentTasksReader"
    options: ClassVar[Mapping[str, Any]] = {"environment": "countdown", "limit": 5}
    splits = ("train", "validation")


class TestCommand(CommandContract):
    component = "astuner_envs.commands:env"
    name = "env"


class TestPackage(PackageContract):
    distribution = "astuner-envs"
