"""Opens the runner of a run's groups: one in this process, or a pool of workers."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from astuner.breakpoints.stopping import expects_stops
from astuner.contract.protocols import Control, Engine, EngineTraits, RunInfo
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import Episode, Group, Task
from astuner.episodes.rollout.host import open_rollouts
from astuner.episodes.rollout.recipe import Recipe
from astuner.episodes.rollout.runner import Round
from astuner.episodes.rollout.worker_count import check_count, choose_count, count_cores

if TYPE_CHECKING:
    from astuner.model.rendering import TemplateRenderer


class GroupRunner(Protocol):
    """Plays groups."""

    async def run(self, tasks: Sequence[Task], round_: Round, /) -> list[Group]:
        """Play `repeats` episodes of each task and return the judged groups, in the order of the tasks."""


def count_workers(run_info: RunInfo, engine: Engine) -> int:
    """Return the number of processes that play; raises `ConfigError` if several are configured and only one is possible."""
    if expects_stops():
        return 1
    reachable = read_traits(engine, EngineTraits).gives_access and run_info.conf is not None
    chosen = choose_count(run_info.config, reachable=reachable, cores=count_cores())
    check_count(run_info, chosen)
    return chosen.count


def open_group_runner(
    *,
    engine: Engine,
    renderer: TemplateRenderer | None,
    recipe: Recipe,
    run_info: RunInfo,
    control: Control,
    on_episode: Callable[[Episode], None] = lambda episode: None,
    on_group: Callable[[Group], None] = lambda group: None,
) -> AbstractAsyncContextManager[GroupRunner]:
    """Return what starts the engine and what plays with it in the running loop, and ends all of it on every path.

    The judges of a runner in this process are made now, before any loop runs.
    """
    count = count_workers(run_info, engine)
    if count > 1:
        return _open_pool(count, engine, renderer, run_info, control, on_episode, on_group)
    if expects_stops() and run_info.config.rollout.players not in ("auto", 1):
        control.notify(
            "breakpoints: one rollout worker plays, in this process, because other processes have no terminal to stop at", "info"
        )
    return open_rollouts(
        engine=engine,
        renderer=renderer,
        parts=recipe.build(run_info, control.hooks),
        run_info=run_info,
        store=control.store,
        notify=control.notify,
        on_episode=on_episode,
        on_group=on_group,
        say=control.notify,
    )


@asynccontextmanager
async def _open_pool(
    count: int,
    engine: Engine,
    renderer: TemplateRenderer | None,
    run_info: RunInfo,
    control: Control,
    on_episode: Callable[[Episode], None],
    on_group: Callable[[Group], None],
) -> AsyncIterator[GroupRunner]:
    # Imported here: most runs have one worker and need none of this.
    from astuner.episodes.rollout_workers.local_workers import LocalWorkerStarter
    from astuner.episodes.rollout_workers.messages import Setup
    from astuner.episodes.rollout_workers.pool import WorkerPool
    from astuner.episodes.rollout_workers.ray_workers import RayWorkerStarter, has_cluster
    from astuner.episodes.rollout_workers.shared_budgets import SharedBudgets
    from astuner.episodes.rollout_workers.worker import divide_run
    from astuner.settings.planning.replan import describe_plan

    spread = has_cluster()
    async with AsyncExitStack() as stack:
        if read_traits(engine, EngineTraits).reports_progress:
            cast("Any", engine).report_to(control.notify)
        await engine.start()
        stack.push_async_callback(engine.close)
        pool = WorkerPool(
            count=count,
            starter=RayWorkerStarter(f"astuner-{run_info.experiment_name}") if spread else LocalWorkerStarter(run_info.directory),
            engine=engine,
            run_info=run_info,
            setup=Setup(
                plan=describe_plan(run_info),
                run_info=divide_run(run_info, count),
                model=run_info.config.model.path if renderer is None or renderer.source is None else renderer.source,
                capabilities=engine.capabilities,
                path=tuple(sys.path),
            ),
            budgets=SharedBudgets(),
            store=control.store,
            say=control.notify,
            on_episode=on_episode,
            on_group=on_group,
        )
        await pool.open()
        stack.push_async_callback(pool.close)
        where = "spread over the nodes of the Ray cluster" if spread else "each in a separate process"
        control.notify(f"{count} rollout workers play the episodes, {where}", "info")
        yield pool
