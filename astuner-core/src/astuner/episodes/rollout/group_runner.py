"""Opens the runner of a run's groups: one in this process, or a pool of workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from astuner.breakpoints.stopping import expects_stops
from astuner.contract.protocols import Control, Engine, EngineTraits, RunInfo
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import Episode, Group, Task
from astuner.episodes.rollout.host import open_rollouts
from astuner.episodes.rollout.recipe import Recipe
from astuner.episodes.rollout.runner import Round
from astuner.episodes.rollout.worker_count import KEY, POOL, WorkerCount, check_count, choose_count, count_cores
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load

if TYPE_CHECKING:
    from astuner.model.rendering import TemplateRenderer


class GroupRunner(Protocol):
    """Plays groups."""

    async def run(self, tasks: Sequence[Task], round_: Round, /) -> list[Group]:
        """Play `repeats` episodes of each task and return the judged groups, in the order of the tasks."""


def count_workers(run_info: RunInfo, engine: Engine, catalog: Catalog) -> WorkerCount:
    """Return the number of processes that play; raises `ConfigError` if several are configured and only one is possible."""
    if expects_stops():
        return WorkerCount(1, "other processes have no terminal to stop at")
    reachable = read_traits(engine, EngineTraits).gives_access and run_info.conf is not None
    chosen = choose_count(run_info.config, reachable=reachable, cores=count_cores(), catalog=catalog)
    check_count(run_info, chosen)
    return chosen


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
    workers = count_workers(run_info, engine, recipe.catalog)
    if workers.count > 1:
        open_pool = load(recipe.catalog.find("function", POOL, config_dir=Path(), key=KEY))
        pool = open_pool(workers.count, engine, renderer, run_info, control, on_episode, on_group)
        return cast("AbstractAsyncContextManager[GroupRunner]", pool)
    if workers.lacking:
        control.notify(f"one process plays the episodes: {workers.why}", "info")
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
