"""What core calls for a run with several workers: an entry point in `astuner.functions`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from astuner.contract.protocols import Control, Engine, EngineTraits, RunInfo
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import Episode, Group
from astuner.settings.planning.replan import describe_plan
from astuner_rollout_workers.local_workers import LocalWorkerStarter
from astuner_rollout_workers.messages import Setup
from astuner_rollout_workers.pool import WorkerPool
from astuner_rollout_workers.ray_workers import RayWorkerStarter, has_cluster
from astuner_rollout_workers.shared_budgets import SharedBudgets
from astuner_rollout_workers.worker import divide_run

if TYPE_CHECKING:
    from astuner.model.rendering import TemplateRenderer


@asynccontextmanager
async def open_pool(
    count: int,
    engine: Engine,
    renderer: TemplateRenderer | None,
    run_info: RunInfo,
    control: Control,
    on_episode: Callable[[Episode], None],
    on_group: Callable[[Group], None],
) -> AsyncIterator[WorkerPool]:
    """Start the engine and the workers; yields what plays groups with them, and ends all of it on every path."""
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
