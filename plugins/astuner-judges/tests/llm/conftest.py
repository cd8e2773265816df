"""A judge over a real API on loopback whose answers a test scripts."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import evolve, field, frozen

from astuner.contract.schema import Episode, Group, Task, Unjudged, Verdict, WorkflowOutput
from astuner.settings.plugins.options import build_options
from astuner_devkit.episodes import episode
from astuner_devkit.run_infos import run_info
from astuner_devkit.scripted_api import Reply, ScriptedApi, scripted_api
from astuner_judges.llm.judge import LlmAsJudge

Judgement = Verdict | Unjudged

WORK = re.compile(r"<answer-([0-9a-f]{16})>\n(.*?)\n</answer-\1>", re.DOTALL)


def works_in(body: Mapping[str, Any]) -> list[str]:
    """The answers that a question shows, in its order."""
    return [found[1] for found in WORK.findall(body["messages"][1]["content"])]


@frozen
class Output:
    """Of a workflow, in place of an answer under the usual key."""

    metadata: Mapping[str, Any]


def _sibling(task: Task, repeat: int, answer: Any) -> Episode:
    metadata = answer.metadata if isinstance(answer, Output) else {"final_answer": answer}
    output = None if isinstance(answer, Exception) else WorkflowOutput(metadata=metadata)
    blank = evolve(episode(repeat, task=task.task_id), task=task, verdict=None, output=output)
    call = evolve(
        blank.calls[0],
        messages=({"role": "user", "content": task.main_query},),
        reply={"role": "assistant", "content": f"I say: {answer}"},
    )
    return evolve(blank, calls=(call,))


@frozen(kw_only=True)
class Bench:
    """Makes judges over the scripted API and lets them judge."""

    output: ClassVar[type[Output]] = Output
    api: ScriptedApi
    home: Path
    task: Task = field(factory=lambda: Task("How much is 2 + 2?", task_id="sum", metadata={"answer": "4"}))

    def judge(self, options: Mapping[str, Any] | None = None, target: Any = LlmAsJudge, **changes: Any) -> Any:
        """A judge as core makes it; by default it does not try again, and asks few questions at once."""
        given = {**(options or {})}
        if target is LlmAsJudge:
            given["llm"] = {"max_retries": 0, "concurrency": 4, **given.get("llm", {})}
        return target.from_run(build_options(target, given, key="task_judge.llm"), run_info(self.home, **changes))

    def group(self, *answers: Any) -> Group:
        """Siblings with these final answers; an exception stands for one that failed."""
        episodes = tuple(_sibling(self.task, repeat, answer) for repeat, answer in enumerate(answers))
        return Group(task=self.task, step=1, split="train", episodes=episodes)

    def __call__(self, *answers: Any, **options: Any) -> list[Judgement]:
        """What a new judge says of siblings with these answers."""
        return self.by(self.judge(options), *answers)

    def by(self, judge: Any, *answers: Any) -> list[Judgement]:
        """What a judge says of siblings with these answers, or of a group; it is closed afterwards."""
        group = answers[0] if answers and isinstance(answers[0], Group) else self.group(*answers)

        async def judged() -> list[Judgement]:
            try:
                return list(await judge.judge(group))
            finally:
                await judge.close()

        return asyncio.run(judged())

    def shown(self) -> list[list[str]]:
        """The works that each question showed."""
        return [works_in(body) for body in self.api.bodies]

    def answer(self, by_works: Callable[..., Any]) -> None:
        """Let the API answer by the works that a question shows."""

        def script(body: Mapping[str, Any], number: int) -> str | Reply:
            said = by_works(*works_in(body))
            return json.dumps(said) if isinstance(said, Mapping) else said

        self.api.script = script


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api() as running:
        for name, value in running.environ.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def bench(api: ScriptedApi, tmp_path: Path) -> Bench:
    return Bench(api=api, home=tmp_path)
