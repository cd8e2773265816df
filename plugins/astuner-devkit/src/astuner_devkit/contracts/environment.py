"""The contract of environments: messages in OpenAI's form, rewards that are numbers, and an end on every path."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

from attrs import frozen

from astuner.contract.protocols import EnvironmentTraits, RunInfo, read_traits
from astuner.contract.protocols.traits import find_options_class
from astuner.contract.schema import Message, Task, WorkflowTask
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.leftovers import find_left_running, list_running
from astuner_devkit.contracts.shape import assert_method, find_call_problem, forbid_errors
from astuner_devkit.contracts.waiting import run_bounded, wait_within

T = TypeVar("T")

ROLES = ("system", "developer", "user", "assistant", "tool")


@frozen(kw_only=True)
class _EpisodeRecord:
    """One episode."""

    first: tuple[Message, ...]
    """The messages of `reset`."""
    steps: tuple[tuple[tuple[Message, ...], Any, Any, Any], ...]
    """What each step returned: messages, reward, done, info."""
    score: Any


class EnvironmentContract(Contract):
    """Rules for environments, which are made for each episode and driven by a few actions."""

    kind: ClassVar[str] = "environment"
    timeout_s: ClassVar[float] = 60.0
    """Time limit for one call."""
    repeatable: ClassVar[bool] = True
    """Whether the same actions on the same task have the same consequences; False if chance is part of the game."""

    def task(self) -> Task:
        """Return a task that the environment can play."""
        return Task("play", task_id="task-7")

    def actions(self) -> Sequence[Message]:
        """Return the answers of a model, given one after the other until the environment is done."""
        return [{"role": "assistant", "content": text} for text in ("1", "hello", "")]

    @self_contained
    def test_it_is_made_as_core_makes_it(self) -> None:
        """`from_run`, or else the constructor, takes the episode's task before what every component gets."""
        target, blame = self.target(), self._blame
        assert isinstance(target, type), f"{blame} is {target!r:.80}; an environment is a class, made for each episode"
        if hasattr(target, "from_run"):
            wrong = find_call_problem(target.from_run, ["workflow_task", "options", "run_info"])
            assert not wrong, f"{blame}: core calls from_run(workflow_task, options, run_info), which does not fit: {wrong}"
        else:
            gets = ["workflow_task", *(["options"] if find_options_class(target) is not None else [])]
            wrong = find_call_problem(target, gets)
            assert not wrong, f"{blame}: core calls {target.__name__}({', '.join(gets)}): {wrong}"

    @self_contained
    def test_it_is_an_environment(self) -> None:
        """It has the methods `reset()`, `step(action)`, `evaluate()` and `close()`, all async."""
        for name, takes in (("reset", []), ("step", ["action"]), ("evaluate", []), ("close", [])):
            assert_method(self.target(), name, takes, blame=self._blame, is_async=True)

    def test_messages_are_in_the_form_of_openai(self, tmp_path: Path) -> None:
        """`reset` gives at least one message, `step` any number: mappings of JSON values with a role and a content."""
        played = self._play(tmp_path)
        assert played.first, f"{self._blame}: reset gave no message; the model needs one to answer"
        for messages in (played.first, *(step[0] for step in played.steps)):
            for message in messages:
                self._check_message(message)

    def test_rewards_are_finite_numbers(self, tmp_path: Path) -> None:
        """The reward of a step and the score are finite numbers, never None or NaN."""
        played = self._play(tmp_path)
        assert played.steps, f"{self._blame}: no action was taken: give some in `actions()`"
        for name, number in [*(("step", reward) for _, reward, _, _ in played.steps), ("evaluate", played.score)]:
            finite = isinstance(number, int | float) and math.isfinite(number)
            assert finite, f"{self._blame}: {name} gave the number {number!r}: give a finite Python float"

    def test_done_is_a_bool_and_info_is_json(self, tmp_path: Path) -> None:
        """`done` is a bool and `info` a mapping of JSON values; `is_success` in it is a bool."""
        for _, _, done, info in self._play(tmp_path).steps:
            assert isinstance(done, bool), f"{self._blame}: step gave done = {done!r}: give a bool"
            assert isinstance(info, Mapping), f"{self._blame}: step gave info = {info!r:.80}: give a mapping"
            self._check_json(info, "info")
            said = info.get("is_success", False)
            assert isinstance(said, bool), f"{self._blame}: info['is_success'] is {said!r}: give a bool, or leave it out"

    def test_tools_are_in_the_form_of_openai(self, tmp_path: Path) -> None:
        """`tools`, if its traits say that it offers them, are functions with a name, as OpenAI's chat API takes them."""

        async def look(environment: Any) -> Any:
            await self._wait_within("reset", environment.reset())
            offers = read_traits(environment, EnvironmentTraits).offers_tools
            has = hasattr(environment, "tools")
            assert offers or not has, f"{self._blame}: `tools` is not read: write `traits = EnvironmentTraits(offers_tools=True)`"
            return environment.tools if offers else ()

        for tool in self._run_with(tmp_path, look):
            function = tool.get("function") if isinstance(tool, Mapping) else None
            named = isinstance(function, Mapping) and isinstance(function.get("name"), str)
            assert named, f"{self._blame}: a tool is {tool!r:.120}: write {{'type': 'function', 'function': {{'name': …}}}}"
            self._check_json(tool, "a tool")

    def test_siblings_begin_alike(self, tmp_path: Path) -> None:
        """Two episodes of a task begin with the same messages: their rewards are compared with each other."""
        first, second = (self._run_with(tmp_path, self._begin) for _ in range(2))
        assert first == second, (
            f"{self._blame}: reset gave {first!r:.200} and then {second!r:.200} for one task: let chance depend on the task alone"
        )

    def test_episodes_are_apart(self, tmp_path: Path) -> None:
        """An episode runs the same alone and next to another: no state in the class or the module."""
        if not self.repeatable:
            raise SkipTest("the environment is not repeatable")
        alone = self._play(tmp_path)

        async def play_in_company(environment: Any) -> _EpisodeRecord:
            other = self._make_or_skip(tmp_path)
            try:
                found, _ = await asyncio.gather(self._drive(environment), self._drive(other))
                return found
            finally:
                await self._wait_within("close", other.close())

        together = self._run_with(tmp_path, play_in_company)
        assert together == alone, f"{self._blame}: an episode depends on concurrent ones: keep its state on `self`"

    def test_it_can_be_closed_at_any_time(self, tmp_path: Path) -> None:
        """`close` works in any state, even before `reset`, if an episode is interrupted."""

        async def do_nothing(environment: Any) -> None:
            return None

        for what, play in (("before reset", do_nothing), ("after reset", self._begin), ("after its end", self._drive)):
            try:
                self._run_with(tmp_path, play)
            except Exception as error:
                if isinstance(error, AssertionError):
                    raise
                raise AssertionError(f"{self._blame}: close {what} raised {type(error).__name__}: {error}") from error

    def test_nothing_is_left_running(self, tmp_path: Path) -> None:
        """After `close` no task, thread or process of the environment keeps running."""
        before = list_running()
        self._run_with(tmp_path, self._drive, and_then=self._check_no_tasks)
        left = find_left_running(before)
        assert not left, f"{self._blame}: after close there still run: {', '.join(left)}"

    async def _check_no_tasks(self) -> None:
        # Let tasks cancelled by `close` end.
        await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, f"{self._blame}: close left a task running: {left[0].get_coro()}: cancel it and wait for it"

    def _construct(self, options: Any, info: RunInfo) -> Any:
        from astuner.settings.plugins.drivers import bind_environment

        task = self.task()
        workflow_task = WorkflowTask(task, task_id=task.task_id, env_type=task.env_type, episode_id=f"train/1/{task.task_id}/0")
        return bind_environment(self.candidate(), self.target(), options, info)(workflow_task)

    def _run_with(
        self, directory: Path, play: Callable[[Any], Awaitable[T]], and_then: Callable[[], Awaitable[None]] | None = None
    ) -> T:
        """Play with a new environment, and close it."""

        async def play_and_close() -> T:
            environment = self._make_or_skip(directory)
            try:
                found = await play(environment)
            finally:
                await self._wait_within("close", environment.close())
            if and_then is not None:
                await and_then()
            return found

        return run_bounded(play_and_close)

    def _play(self, directory: Path) -> _EpisodeRecord:
        return self._run_with(directory, self._drive)

    async def _begin(self, environment: Any) -> Any:
        return await self._wait_within("reset", environment.reset())

    async def _drive(self, environment: Any) -> _EpisodeRecord:
        first = self._read_messages("reset", await self._begin(environment))
        steps = []
        for action in self.actions():
            found = await self._wait_within("step", environment.step(action))
            four = isinstance(found, tuple | list) and len(found) == 4
            assert four, f"{self._blame}: step gave {found!r:.120}: return (messages, reward, done, info)"
            messages, reward, done, info = found
            steps.append((self._read_messages("step", messages), reward, done, info))
            if done:
                break
        score = await self._wait_within("evaluate", environment.evaluate())
        return _EpisodeRecord(first=first, steps=tuple(steps), score=score)

    async def _wait_within(self, name: str, awaitable: Awaitable[T]) -> T:
        return await wait_within(self.timeout_s, f"{self._blame}: {name}", awaitable)

    def _read_messages(self, name: str, found: Any) -> tuple[Any, ...]:
        several = isinstance(found, Sequence) and not isinstance(found, str | bytes)
        assert several, f"{self._blame}: {name} gave {found!r:.120} for messages: give a list of them"
        return tuple(found)

    def _check_message(self, message: Any) -> None:
        assert isinstance(message, Mapping), f"{self._blame}: a message is {message!r:.120}: give a mapping with role and content"
        role, content = message.get("role"), message.get("content")
        assert role in ROLES, f"{self._blame}: a message has the role {role!r}: use one of {', '.join(ROLES)}"
        text = isinstance(content, str | list) or (content is None and message.get("tool_calls"))
        assert text, f"{self._blame}: a message of the {role} has the content {content!r:.80}: give a text"
        if role == "tool":
            assert message.get("tool_call_id"), f"{self._blame}: a message of the tool has no tool_call_id: give that of the call"
        self._check_json(message, "a message")

    def _check_json(self, value: Any, what: str) -> None:
        with forbid_errors(f"{self._blame}: writing {what} as JSON", "hold text, numbers, lists and mappings"):
            json.dumps(value, allow_nan=False)
