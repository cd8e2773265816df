from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field

from astuner.contract.protocols import Detector, Judge, Workflow
from astuner.contract.schema import Episode, Group, Request, Sampling, Split, Task
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.episodes.containment.guarded_loop import GuardedLoop
from astuner.episodes.rollout.detection import NamedDetector
from astuner.episodes.rollout.environments.lifetime import Environments
from astuner.episodes.rollout.environments.selection import EnvironmentChoice, choose_environment
from astuner.episodes.rollout.host import open_rollouts
from astuner.episodes.rollout.recipe import Parts
from astuner.episodes.rollout.runner import Round
from astuner.model.rendering import TemplateRenderer
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.settings.config.env_variables import Environment
from astuner.settings.config.model import Config, Data
from astuner.settings.config.rollout import MultiTurn, Rollout
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner.settings.plugins.hooks import Hooks
from astuner_devkit.run_infos import run_info
from astuner_devkit.tokenizer import tiny_tokenizer

HERE = Path(__file__).parent


class Games:
    """Plays one task in an environment of `environment_games.py`, over a real gateway and a scripted engine."""

    def __init__(self, directory: Path, renderer: TemplateRenderer) -> None:
        self.directory, self.renderer = directory, renderer
        self.renderer_of_run: TemplateRenderer | None = renderer
        self.engine: type[ScriptedEngine] = ScriptedEngine
        self.told: list[str] = []
        self.judge: Any = None
        self.workflow: Any = None
        self.make_tracker: Callable[[], Any] = TimelineTracker
        self.options: dict[str, Any] = {}
        self.data: dict[str, Any] = {}
        self.max_steps = 5
        self.config: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {"secret": 7}
        self.values: dict[str, Any] = {}

    def game(self, name: str) -> Any:
        return Catalog().find("environment", f"{HERE}/environment_games.py:{name}", config_dir=HERE, key="environment_type")

    def log(self, name: str) -> list[str]:
        return load(self.game(name)).log

    def threads(self, name: str) -> set[int]:
        return load(self.game(name)).threads

    def play(self, name: str | None, *replies: str, stop_at: str | None = None) -> Episode:
        """Play; with `stop_at`, cancel as soon as this stands in the environment's log."""
        [group] = asyncio.run(self._play(name, replies, stop_at))
        return group.episodes[0]

    async def _play(self, name: str | None, replies: Sequence[str], stop_at: str | None) -> list[Group]:
        run, parts = self._run_and_parts(name)
        store = EpisodeFiles(self.directory, replay_after=None)
        engine = self.engine(ScriptedEngine.Options(replies=replies or ("7",)), tokenizer=self.renderer.tokenizer)
        try:
            async with open_rollouts(
                engine=engine, renderer=self.renderer_of_run, parts=parts, run_info=run, store=store, notify=self.told.append
            ) as runner:
                task = Task("guess", task_id="t", metadata=self.metadata, env_type="no_env" if name is None else "game")
                playing = asyncio.ensure_future(
                    runner.run([task], Round(step=1, split="train", repeats=1, sampling=Sampling(max_tokens=200)))
                )
                if stop_at is not None and name is not None:
                    async with asyncio.timeout(20):
                        while stop_at not in self.log(name):
                            await asyncio.sleep(0.01)
                    playing.cancel()
                return await playing
        finally:
            store.close()

    def _run_and_parts(self, name: str | None) -> tuple[Any, Parts]:
        rollout = Rollout(
            **{
                "use_agentscope_protocol": False,
                "max_retries": 0,
                "episode_timeout_s": 200.0,
                "failure_budget": 1.0,
                "multi_turn": MultiTurn(max_steps=self.max_steps),
                **self.options,
            }
        )
        config = Config(**{"rollout": rollout, "data": Data(**self.data), "environment": Environment(), **self.config})
        run = run_info(self.directory, directory=self.directory, config=config)
        preference = config.environment.env_action_preference or "text"
        choice = EnvironmentChoice(leads=self.workflow is None, preference=preference)
        if name is not None:
            choice = evolve(choice, everywhere=choose_environment(self.game(name), self.values))
        parts = Parts(
            make_workflow=self.workflow,
            trainable_targets=None,
            judge=self.judge,
            make_tracker=self.make_tracker,
            workflow_target="",
            environments=Environments(choice, run, Catalog(), Hooks(Catalog())),
        )
        return run, parts


@pytest.fixture(scope="session")
def renderer() -> TemplateRenderer:
    return TemplateRenderer(tiny_tokenizer())


@pytest.fixture
def games(tmp_path: Path, renderer: TemplateRenderer) -> Games:
    made = Games(tmp_path, renderer)
    load(made.game("Guess")).log.clear()
    load(made.game("Guess")).threads.clear()
    return made


@define(eq=False)
class Stage:
    """Plays repeats of one task with an engine that says what a test wants."""

    directory: Path
    renderer: TemplateRenderer
    workflow: type[Workflow]
    says: Callable[[str, Request], str]
    """Makes the answer to a prompt."""
    detectors: Sequence[tuple[str, Detector]] = ()
    judge: Judge | None = None
    trainable_targets: tuple[str, ...] | None = None
    options: dict[str, Any] = field(factory=dict)
    """Of `rollout`."""
    told: list[str] = field(factory=list)
    blocks: bool = False
    """Whether the workflow is a plain function."""

    def play(self, repeats: int = 1, *, split: Split = "train", max_tokens: int = 400, replay: bool = False) -> Group:
        round_ = Round(step=1, split=split, repeats=repeats, sampling=Sampling(max_tokens=max_tokens))
        with asyncio.Runner(loop_factory=GuardedLoop) as runner:
            return runner.run(self._play(round_, replay))

    async def _play(self, round_: Round, replay: bool) -> Group:
        options = {"max_retries": 0, "episode_timeout_s": 200.0, "failure_budget": 1.0, **self.options}
        run = run_info(self.directory, directory=self.directory, config=Config(rollout=Rollout(**options)))
        parts = Parts(
            make_workflow=self.workflow,
            trainable_targets=self.trainable_targets,
            judge=self.judge,
            make_tracker=TimelineTracker,
            workflow_target=f"{inspect.getfile(self.workflow)}:{self.workflow.__name__}",
            workflow_blocks=self.blocks,
            detectors=tuple(NamedDetector(name, f"detector '{name}'", detector) for name, detector in self.detectors),
        )
        store = EpisodeFiles(self.directory, replay_after=0 if replay else None)
        engine = ScriptedEngine(tokenizer=self.renderer.tokenizer, reply=self.says)
        try:
            async with open_rollouts(
                engine=engine, renderer=self.renderer, parts=parts, run_info=run, store=store, notify=self.told.append
            ) as runner:
                [group] = await runner.run([Task("How much is 2 + 2?", task_id="t")], round_)
                return group
        finally:
            store.close()


@pytest.fixture
def stage(tmp_path: Path, renderer: TemplateRenderer) -> Callable[..., Stage]:
    def make(workflow: type[Workflow], says: Callable[[str, Request], str], **more: Any) -> Stage:
        return Stage(tmp_path, renderer, workflow, says, **more)

    return make
