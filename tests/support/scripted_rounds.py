"""Rounds of the episode runner, over a real gateway and a scripted engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from astuner.contract.protocols import Judge, Workflow
from astuner.contract.schema import Sampling, Task, Verdict, WorkflowOutput
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.episodes.rollout.host import open_rollouts
from astuner.episodes.rollout.recipe import Parts
from astuner.episodes.rollout.runner import Round
from astuner.model.rendering import TemplateRenderer
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.settings.config.model import Config, Data
from astuner.settings.config.rollout import Rollout
from astuner_devkit.run_infos import run_info
from astuner_devkit.tokenizer import tiny_tokenizer

TASKS = [Task(f"question {i}", task_id=f"t{i}") for i in range(3)]


class Ask(Workflow):
    """One call, whose text is the answer."""

    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        reply = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": workflow_task.task.main_query}]
        )
        return WorkflowOutput(metadata={"final_answer": reply.choices[0].message.content})


class Whole(Judge):
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    async def judge(self, group):
        completed = [e for e in group.episodes if e.completed]
        self.seen.append([e.repeat for e in completed])
        return [Verdict(float(e.repeat)) for e in completed]


class Playing:
    """Plays rounds in a directory, each over a store of its own, as attempts of one run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.renderer = TemplateRenderer(tiny_tokenizer())
        self.prompts: list[str] = []
        self.told: list[str] = []
        self.judge: Judge | None = Whole()
        self.workflow: type[Workflow] = Ask
        self.options: dict[str, Any] = {}
        self.targets: tuple[str, ...] | None = None
        self.max_tokens = 20
        self.greedy = False

    def says(self, prompt: str, request: Any) -> str:
        self.prompts.append(prompt)
        return "four"

    def play(self, *, repeats: int = 2, replay: bool = False, step: int = 1) -> Any:
        return asyncio.run(self._play(repeats, replay, step))

    async def _play(self, repeats: int, replay: bool, step: int) -> Any:
        options = {"max_retries": 0, "episode_timeout_s": 20.0, "failure_budget": 1.0, **self.options}
        run = run_info(self.directory, directory=self.directory, config=Config(rollout=Rollout(**options), data=Data()))
        parts = Parts(
            make_workflow=self.workflow,
            trainable_targets=self.targets,
            judge=self.judge,
            make_tracker=TimelineTracker,
            workflow_target="",
        )
        store = EpisodeFiles(self.directory, replay_after=0 if replay else None)
        engine = ScriptedEngine(tokenizer=self.renderer.tokenizer, reply=lambda *given: self.says(*given))
        try:
            async with open_rollouts(
                engine=engine, renderer=self.renderer, parts=parts, run_info=run, store=store, notify=self.told.append
            ) as runner:
                sampling = Sampling(max_tokens=self.max_tokens)
                round_ = Round(step=step, split="train", repeats=repeats, sampling=sampling, greedy=self.greedy)
                return await runner.run(TASKS, round_)
        finally:
            store.close()


def make_failing(error: Exception, *, attempts: int, only: int | None = None) -> type[Workflow]:
    class Fails(Ask):
        async def execute(self, workflow_task, tuner):
            if workflow_task.attempt < attempts and only in (None, workflow_task.repeat):
                raise error
            return await super().execute(workflow_task, tuner)

    return Fails
