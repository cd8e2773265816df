"""The episode runner over a real gateway and a scripted engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.builtin.engines.scripted_engine import ScriptedEngine
from astuner.builtin.trackers.timeline import TimelineTracker
from astuner.config.model import Config, Data
from astuner.config.rollout import Rollout
from astuner.errors import RunFailed
from astuner.protocols import Judge, Workflow
from astuner.rendering import TemplateRenderer
from astuner.rollout.host import open_rollouts
from astuner.rollout.recipe import Parts
from astuner.rollout.runner import Round
from astuner.runs.episode_store import EpisodeFiles, read_episodes
from astuner.schema import Sampling, Task, Unjudged, Verdict, WorkflowOutput
from astuner.testing.run_infos import run_info
from astuner.testing.tokenizer import tiny_tokenizer

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
            trainable_targets=None,
            judge=self.judge,
            make_tracker=TimelineTracker,
            workflow_target="",
        )
        store = EpisodeFiles(self.directory, replay_after=0 if replay else None)
        engine = ScriptedEngine(tokenizer=self.renderer.tokenizer, reply=self.says)
        try:
            async with open_rollouts(
                engine=engine, renderer=self.renderer, parts=parts, run_info=run, store=store, notify=self.told.append
            ) as runner:
                round_ = Round(step=step, split="train", repeats=repeats, sampling=Sampling(max_tokens=20))
                return await runner.run(TASKS, round_)
        finally:
            store.close()


@pytest.fixture
def playing(tmp_path: Path) -> Playing:
    return Playing(tmp_path)


def make_failing(error: Exception, *, attempts: int, only: int | None = None) -> type[Workflow]:
    class Fails(Ask):
        async def execute(self, workflow_task, tuner):
            if workflow_task.attempt < attempts and only in (None, workflow_task.repeat):
                raise error
            return await super().execute(workflow_task, tuner)

    return Fails


def test_groups_come_in_the_order_of_tasks_and_repeats(playing: Playing):
    groups = playing.play(repeats=3)
    assert [[e.id for e in group.episodes] for group in groups] == [[f"train/1/t{i}/{r}" for r in range(3)] for i in range(3)]


def test_the_judge_sees_all_siblings_of_a_group_at_once(playing: Playing):
    playing.play(repeats=3)
    assert playing.judge.seen == [[0, 1, 2]] * 3


def test_a_failed_sibling_is_kept_in_the_group_with_its_reason(playing: Playing):
    playing.workflow = make_failing(RuntimeError("tool broke"), attempts=9, only=1)
    (group, *_) = playing.play(repeats=3)
    failed = group.episodes[1]
    assert (failed.completed, failed.reward) == (False, None)
    assert (failed.failures[-1].reason, "RuntimeError: tool broke (test_runner.py:" in failed.failures[-1].detail) == (
        "workflow_error",
        True,
    )
    assert [e.reward for e in group.episodes] == [0.0, None, 2.0]


def test_an_episode_is_tried_again_as_often_as_allowed(playing: Playing):
    playing.workflow = make_failing(RuntimeError("flaky"), attempts=2)
    playing.options = {"max_retries": 2}
    (group, *_) = playing.play(repeats=1)
    assert group.episodes[0].completed
    assert [(f.attempt, f.retried) for f in group.episodes[0].failures] == [(0, True), (1, True)]


def test_a_hanging_episode_ends_with_its_time_limit_and_the_others_go_on(playing: Playing):
    class Hangs(Ask):
        async def execute(self, workflow_task, tuner):
            if workflow_task.repeat == 0:
                await asyncio.sleep(60)
            return await super().execute(workflow_task, tuner)

    playing.workflow = Hangs
    playing.options = {"episode_timeout_s": 5.0}
    groups = playing.play()
    assert [[e.completed for e in g.episodes] for g in groups] == [[False, True]] * 3
    assert groups[0].episodes[0].failures[-1].reason == "timeout"


def test_a_time_out_of_the_workflow_itself_is_an_error_of_the_workflow(playing: Playing):
    playing.workflow = make_failing(TimeoutError("my own"), attempts=9)
    assert playing.play(repeats=1)[0].episodes[0].failures[-1].reason == "workflow_error"


def test_a_full_context_is_an_outcome_of_its_own(playing: Playing):
    playing.options = {"max_model_len": 8}
    assert playing.play(repeats=1)[0].episodes[0].failures[-1].reason == "context_full"


def test_something_else_than_an_output_is_an_error_of_the_workflow(playing: Playing):
    class ReturnsText(Workflow):
        async def execute(self, workflow_task, tuner):
            return "four"

    playing.workflow = ReturnsText
    assert "must return a WorkflowOutput" in playing.play(repeats=1)[0].episodes[0].failures[-1].detail


def test_too_many_failures_end_the_run_with_the_reasons_counted(playing: Playing):
    playing.workflow = make_failing(RuntimeError("tool broke"), attempts=9)
    playing.options = {"failure_budget": 0.5}
    with pytest.raises(
        RunFailed, match=r"6 of 6 episodes of step 1 \(train\)[\s\S]*6 x workflow_error: RuntimeError: tool broke"
    ):
        playing.play()


def test_finished_episodes_are_neither_generated_nor_judged_again(playing: Playing):
    first = playing.play()
    asked, seen = len(playing.prompts), len(playing.judge.seen)
    again = playing.play(replay=True)
    assert (len(playing.prompts), len(playing.judge.seen)) == (asked, seen)
    assert [[(e.id, e.reward) for e in g.episodes] for g in again] == [[(e.id, e.reward) for e in g.episodes] for g in first]
    assert again[0].episodes[0].samples[0].ids.tolist() == first[0].episodes[0].samples[0].ids.tolist()


def test_episodes_that_were_not_judged_yet_are_judged_without_being_generated(playing: Playing):
    playing.play()
    path = playing.directory / "train.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if '"kind":"verdicts"' not in line))
    asked = len(playing.prompts)
    groups = playing.play(replay=True)
    assert len(playing.prompts) == asked
    assert [e.reward for e in groups[0].episodes] == [0.0, 1.0]


def test_every_finished_episode_lies_in_the_store(playing: Playing):
    playing.play()
    assert {e.id: e.reward for e in read_episodes(playing.directory, "train")} == {
        f"train/1/t{i}/{r}": float(r) for i in range(3) for r in range(2)
    }


def test_a_judge_that_cannot_look_leaves_its_episode_unjudged(playing: Playing):
    class Blind(Whole):
        async def observe(self, episode, environment):
            raise OSError("no eyes")

    playing.judge = Blind()
    verdict = playing.play(repeats=1)[0].episodes[0].verdict
    assert isinstance(verdict, Unjudged)
    assert verdict.detail == "observe: OSError: no eyes"


def test_metadata_reaches_the_judge_as_it_will_be_stored(playing: Playing):
    class Odd(Ask):
        async def execute(self, workflow_task, tuner):
            output = await super().execute(workflow_task, tuner)
            return evolve(output, metadata={**output.metadata, "pair": (1, 2), "thing": Path("x")})

    playing.workflow = Odd
    episode = playing.play(repeats=1)[0].episodes[0]
    assert episode.output.metadata == {"final_answer": "four", "pair": [1, 2], "thing": "x"}
    assert playing.told == ["WorkflowOutput.metadata['thing'] is not a JSON value: judges and the run store get its text"]
