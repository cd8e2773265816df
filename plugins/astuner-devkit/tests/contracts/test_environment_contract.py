from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from attrs import frozen

from astuner.contract.protocols import EnvironmentTraits, RunInfo
from astuner.contract.schema import Message, Task, WorkflowTask
from astuner_devkit.contracts import Contract, EnvironmentContract, list_rules, run_contract

Found = tuple[Sequence[Message], float, bool, Mapping[str, Any]]


class Counts:
    """A good environment: say the next number."""

    traits = EnvironmentTraits(offers_tools=True)
    tools: ClassVar[Any] = ({"type": "function", "function": {"name": "count", "parameters": {"type": "object"}}},)

    def __init__(self, workflow_task: WorkflowTask) -> None:
        self.start = int(workflow_task.task.metadata.get("start", 1))
        self.right = 0

    async def reset(self) -> Any:
        return [{"role": "user", "content": f"Count from {self.start}."}]

    async def step(self, action: Message) -> Any:
        self.right += action["content"] == str(self.start + self.right)
        return [{"role": "user", "content": "go on"}], float(self.right), self.right == 3, {"right": self.right}

    async def evaluate(self) -> Any:
        return self.right / 3

    async def close(self) -> None:
        return None


class TestCounts(EnvironmentContract):
    component = Counts

    def task(self) -> Task:
        return Task("count", task_id="t", metadata={"start": 4})

    def actions(self) -> Sequence[Message]:
        return [{"role": "assistant", "content": str(number)} for number in (4, 7, 5, 6, 7)]


class Configured(Counts):
    @frozen(kw_only=True)
    class Options:
        word: str
        """What it says."""

    def __init__(self, workflow_task: WorkflowTask, options: Options) -> None:
        super().__init__(workflow_task)
        self.options = options


class TestConfigured(EnvironmentContract):
    component = Configured
    options: ClassVar[Mapping[str, Any]] = {"word": "hello"}


class FromRun(Configured):
    @classmethod
    def from_run(cls, workflow_task: WorkflowTask, options: Any, run_info: RunInfo) -> FromRun:
        return cls(workflow_task, options)


class TestFromRun(EnvironmentContract):
    component = FromRun
    options: ClassVar[Mapping[str, Any]] = {"word": "hello"}


class TakesNoTask(Counts):
    def __init__(self) -> None:
        self.start, self.right = 1, 0


class Sync(Counts):
    def step(self, action: Message) -> Any:  # type: ignore[override]
        return [], 0.0, True, {}


class NoClose:
    def __init__(self, workflow_task: WorkflowTask) -> None: ...

    async def reset(self) -> Any: ...

    async def step(self, action: Message) -> Any: ...

    async def evaluate(self) -> Any: ...


class SaysNothing(Counts):
    async def reset(self) -> Any:
        return []


class NoRole(Counts):
    async def step(self, action: Message) -> Any:
        return [{"content": "hm"}], 0.0, False, {}


class NoCallId(Counts):
    async def step(self, action: Message) -> Any:
        return [{"role": "tool", "content": "3"}], 0.0, False, {}


class OneMessage(Counts):
    async def reset(self) -> Any:
        return {"role": "user", "content": "hi"}


class NoReward(Counts):
    async def step(self, action: Message) -> Any:
        return [], None, False, {}


class NanScore(Counts):
    async def evaluate(self) -> Any:
        return float("nan")


class Five(Counts):
    async def step(self, action: Message) -> Any:
        return [], 0.0, False, False, {}


class DoneIsANumber(Counts):
    async def step(self, action: Message) -> Any:
        return [], 0.0, 0, {}


class OddInfo(Counts):
    async def step(self, action: Message) -> Any:
        return [], 0.0, False, {"seen": {1}}


class OddSuccess(Counts):
    async def step(self, action: Message) -> Any:
        return [], 0.0, False, {"is_success": "yes"}


class BareTool(Counts):
    tools: ClassVar[Any] = [{"name": "count"}]


class AtRandom(Counts):
    made = 0

    async def reset(self) -> Any:
        type(self).made += 1
        return [{"role": "user", "content": f"Number {self.made}."}]


class SharesItsScore(Counts):
    shared = 0

    def __init__(self, workflow_task: WorkflowTask) -> None:
        super().__init__(workflow_task)
        type(self).shared = 0

    async def step(self, action: Message) -> Any:
        type(self).shared += 1
        await asyncio.sleep(0)
        return [], float(self.shared), False, {}


class ClosesWhatItOpened(Counts):
    async def reset(self) -> Any:
        self.handle = "open"
        return await super().reset()

    async def close(self) -> None:
        assert self.handle == "open"
        del self.handle


class HangsAtTheEnd(Counts):
    async def close(self) -> None:
        await asyncio.sleep(600)


class LeavesATask(Counts):
    async def reset(self) -> Any:
        self.heartbeat = asyncio.ensure_future(asyncio.sleep(600))
        return await super().reset()


BAD: list[tuple[str, type, str]] = [
    ("test_it_is_made_as_core_makes_it", TakesNoTask, "core calls TakesNoTask(workflow_task): "),
    ("test_it_is_an_environment", Sync, "`step` is awaited, and so must be async"),
    ("test_it_is_an_environment", NoClose, "has no method `close`"),
    ("test_messages_are_in_the_form_of_openai", SaysNothing, "reset gave no message"),
    ("test_messages_are_in_the_form_of_openai", OneMessage, "give a list of them"),
    ("test_messages_are_in_the_form_of_openai", NoRole, "a message has the role None"),
    ("test_messages_are_in_the_form_of_openai", NoCallId, "has no tool_call_id"),
    ("test_rewards_are_finite_numbers", NoReward, "step gave the number None"),
    ("test_rewards_are_finite_numbers", NanScore, "evaluate gave the number nan"),
    ("test_rewards_are_finite_numbers", Five, "return (messages, reward, done, info)"),
    ("test_done_is_a_bool_and_info_is_json", DoneIsANumber, "done = 0: give a bool"),
    ("test_done_is_a_bool_and_info_is_json", OddInfo, "writing info as JSON raised TypeError"),
    ("test_done_is_a_bool_and_info_is_json", OddSuccess, "info['is_success'] is 'yes'"),
    ("test_tools_are_in_the_form_of_openai", BareTool, "a tool is {'name': 'count'}"),
    ("test_siblings_begin_alike", AtRandom, "let chance depend on the task alone"),
    ("test_episodes_are_apart", SharesItsScore, "keep its state on `self`"),
    ("test_it_can_be_closed_at_any_time", ClosesWhatItOpened, "close before reset raised AttributeError"),
    ("test_it_can_be_closed_at_any_time", HangsAtTheEnd, "close did not end within 0.2 s"),
    ("test_nothing_is_left_running", LeavesATask, "close left a task running"),
]


def contract_of(environment: type, **given: Any) -> type[EnvironmentContract]:
    return type("Bad", (EnvironmentContract,), {"component": environment, "timeout_s": 0.2, **given})


@pytest.mark.parametrize(("rule", "environment", "words"), BAD)
def test_a_bad_environment_breaks_its_rule(rule: str, environment: type, words: str) -> None:
    outcome = next(outcome for outcome in run_contract(contract_of(environment)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_environment() -> None:
    own = set(list_rules(EnvironmentContract)) - set(list_rules(Contract)) | {"test_it_is_made_as_core_makes_it"}
    assert {rule for rule, _, _ in BAD} == own


def test_a_game_of_chance_says_so() -> None:
    outcomes = {outcome.rule: outcome.status for outcome in run_contract(contract_of(SharesItsScore, repeatable=False))}
    assert outcomes["test_episodes_are_apart"] == "skipped"


def test_an_environment_that_needs_options_is_not_blamed_where_nobody_gave_any() -> None:
    statuses = {outcome.status for outcome in run_contract(contract_of(Configured), only_self_contained=True)}
    assert statuses == {"passed"}
