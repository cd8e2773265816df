"""Plays episodes in one of Trinity's runner processes: core's runner and gateway over its engine."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from astuner.contract.errors import Interrupted
from astuner.contract.protocols import Estimator, RunInfo
from astuner.contract.schema import Split, Task
from astuner.episodes.rollout.host import make_training_sampling, make_validation_sampling, open_rollouts
from astuner.episodes.rollout.runner import RolloutRunner, Round
from astuner.runs.store.episode_store import StoredEpisodes
from astuner.settings.planning.replan import replan
from astuner_trinity.explorer.engine import Versions, make_engine
from astuner_trinity.explorer.experiences import build_experiences
from astuner_trinity.layout import Layout
from astuner_trinity.spool import Spool

if TYPE_CHECKING:
    from trinity.common.experience import Experience

AUXILIARY = "ASTUNER_TRINITY_AUXILIARY_MODELS"
"""The OpenAI-compatible addresses of `trinity.explorer.auxiliary_models`, in their order, separated by commas."""
AUXILIARY_KEY = "ASTUNER_TRINITY_AUXILIARY_KEY"
"""The API key of all of them: the run's."""
LOOK_S = 0.5
LAST_WEIGHTS_S = 120.0

_workers: dict[str, RolloutWorker] = {}
_opening = asyncio.Lock()


async def get_worker(plan: str, model: Any, auxiliary: list[Any], steps_before: int) -> RolloutWorker:
    """Return this process's worker; the first task opens it."""
    async with _opening:
        if plan not in _workers:
            _workers[plan] = await RolloutWorker.open(plan, model, auxiliary, steps_before)
        return _workers[plan]


@define(eq=False, kw_only=True)
class RolloutWorker:
    """Lives as long as its process."""

    run_info: RunInfo
    layout: Layout
    runner: RolloutRunner
    estimator: Estimator
    spool: Spool
    versions: Versions
    steps_before: int
    """The run's step before the stage that its process belongs to."""
    _stack: AsyncExitStack
    _playing: set[asyncio.Task[Any]] = field(factory=set, init=False)
    _watch: asyncio.Task[None] | None = field(default=None, init=False)

    @classmethod
    async def open(cls, plan_file: str, model: Any, auxiliary: list[Any], steps_before: int) -> RolloutWorker:
        """Plan the run again, and open gateway and runner over one of Trinity's engines."""
        from astuner.model.rendering import load_renderer
        from astuner.settings.plugins.hooks import Hooks

        os.environ[AUXILIARY] = ",".join([f"{one.api_address}/v1" for one in auxiliary if one.api_address])
        os.environ[AUXILIARY_KEY] = model.api_key
        again = replan(Layout.of_plan(plan_file).plan)
        plan, info = again.plan, _divide_run_info(again.run_info, again.facts["runners"])
        layout = Layout(info.directory)
        earlier = StoredEpisodes(info.directory / "episodes", replay_after=again.facts["replay_after"])
        spool = Spool(layout.played / f"{socket.gethostname()}-{os.getpid()}.jsonl", earlier)
        hooks = Hooks(plan.catalog, on_listener_error=spool.say, options=info.config.plugins.options)
        stack, versions = AsyncExitStack(), Versions(model.model, steps_before)
        # In a thread: a judge may have to learn first, and the loop is the explorer's.
        parts = await asyncio.to_thread(plan.recipe.build, info, hooks)
        runner = await stack.enter_async_context(
            open_rollouts(
                engine=make_engine(model, info, versions),
                renderer=load_renderer(again.facts["model"], **info.config.model.rendering),
                parts=parts,
                run_info=info,
                store=spool,
                notify=spool.say,
                say=spool.say,
            )
        )
        worker = cls(
            run_info=info,
            layout=layout,
            runner=runner,
            estimator=plan.recipe.make_estimator(info, hooks),
            spool=spool,
            versions=versions,
            steps_before=steps_before,
            stack=stack,
        )
        worker._watch = asyncio.create_task(worker._cancel_when_stopped())
        return worker

    async def wait_for_weights(self, step: int) -> None:
        """Wait, within a limit, until the engine serves the weights after a step, which may be on their way."""
        until = time.monotonic() + LAST_WEIGHTS_S
        while await self.versions.now() < step and time.monotonic() < until and not self.layout.stop.exists():
            await asyncio.sleep(LOOK_S)

    async def play(self, task: Task, step: int, split: Split, repeats: int) -> list[Experience]:
        """Play and judge a task's siblings, and return their rows; raises `Interrupted` if the run must stop."""
        if self.layout.stop.exists():  # tasks queued before the stop
            raise Interrupted("the run is being stopped")
        sampling = make_training_sampling(self.run_info) if split == "train" else make_validation_sampling(self.run_info)
        round_ = Round(step=step, split=split, repeats=repeats, sampling=sampling)
        began = time.time()
        playing = asyncio.create_task(self.runner.run([task], round_))
        self._playing.add(playing)
        try:
            (group,) = await playing
        except asyncio.CancelledError:
            if self.layout.stop.exists():
                raise Interrupted("the run is being stopped") from None
            raise
        finally:
            self._playing.discard(playing)
            playing.cancel()
        by_agent = self.run_info.config.trainer_common.algorithm.norm_adv_by_agent
        rows = build_experiences(
            group, self.estimator, by_agent=by_agent, plan=str(self.layout.plan), steps_before=self.steps_before
        )
        # Not earlier: a group without rows counts as missing, which the driver reports.
        self.spool.add_group(group, began)
        return rows

    async def _cancel_when_stopped(self) -> None:
        while not self.layout.stop.exists():
            await asyncio.sleep(LOOK_S)
        for playing in list(self._playing):
            playing.cancel()


def _divide_run_info(info: RunInfo, runners: int) -> RunInfo:
    """Return the run for one of its processes: a share of the episodes, a separate port, and no failure budget.

    The driver, which sees all episodes, applies the budget.
    """
    rollout = info.config.rollout
    share = max(1, rollout.max_env_worker // max(1, runners))
    config = evolve(
        info.config,
        rollout=evolve(rollout, max_env_worker=share, failure_budget=1.0),
        gateway=evolve(info.config.gateway, port=0),
    )
    return evolve(info, config=config)
