"""Everything alive around rollouts in one event loop: engine, gateway, runner; opened and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from astuner.contract.protocols import Engine, EngineTraits, EpisodeStore, Judge, RunInfo, Sandboxes, Say
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import Episode, Group, Sampling
from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import describe_raised
from astuner.episodes.containment.guarded_loop import end_tasks_of_code, guard_tasks
from astuner.episodes.containment.leftovers import end_leftovers
from astuner.episodes.containment.process_exit import refuse_exits
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.rollout.garbage_collector import relax_collector
from astuner.episodes.rollout.recipe import Parts
from astuner.episodes.rollout.runner import RolloutRunner
from astuner.episodes.rollout.secret_free_store import SecretFreeStore

if TYPE_CHECKING:
    from astuner.model.rendering import TemplateRenderer

CLOSE_TIMEOUT_S = 30.0
"""Longest that a judge, or the sandboxes, may take to be closed."""


@asynccontextmanager
async def open_rollouts(
    *,
    engine: Engine,
    renderer: TemplateRenderer | None,
    parts: Parts,
    run_info: RunInfo,
    store: EpisodeStore,
    notify: Callable[[str], None],
    on_episode: Callable[[Episode], None] = lambda episode: None,
    on_group: Callable[[Group], None] = lambda group: None,
    say: Say | None = None,
) -> AsyncIterator[RolloutRunner]:
    """Start engine and gateway in the running loop, yield a runner, and end all three on every path.

    `say` gets the startup progress of an engine that starts programs, if it has a method `report_to(say)`.
    """
    from astuner.model.gateway import Gateway

    guard_tasks(asyncio.get_running_loop())
    options = run_info.config.gateway
    for text in () if renderer is None else renderer.notices:
        notify(text)
    async with AsyncExitStack() as stack:
        # Last of all: judges and environments end their own.
        stack.enter_context(end_leftovers(notify))
        stack.enter_context(refuse_exits())
        if parts.judge is not None:
            stack.push_async_callback(close_judge, parts.judge, notify)
        if parts.sandboxes is not None:
            stack.push_async_callback(_close_sandboxes, parts.sandboxes, notify)
        if say is not None and read_traits(engine, EngineTraits).reports_progress:
            cast("Any", engine).report_to(say)
        await engine.start()
        stack.push_async_callback(engine.close)
        embedder = None
        if options.embeddings is not None:
            from astuner.model.gateway.embeddings import EmbeddingsServer

            embedder = EmbeddingsServer(url=options.embeddings, key_env=options.embeddings_key_env)
        gateway = Gateway(
            engine,
            renderer,
            host=options.host,
            port=options.port,
            public_url=options.public_url,
            max_body_bytes=options.max_body_bytes,
            max_connections=options.max_connections,
            disabled_plugins=run_info.config.plugins.disabled,
            cors_origins=options.cors_origins,
            embedder=embedder,
        )
        await gateway.start()
        stack.push_async_callback(gateway.close)
        # While the gateway still answers.
        stack.push_async_callback(end_tasks_of_code)
        runner = RolloutRunner(
            parts=parts,
            gateway=gateway,
            run_info=run_info,
            store=SecretFreeStore(store, run_info),
            notify=notify,
            on_episode=on_episode,
            on_group=on_group,
            renderer=renderer,
            engine_max_model_len=engine.capabilities.max_model_len,
        )
        runner.start()
        stack.callback(runner.close)
        stack.enter_context(relax_collector())
        yield runner


async def _close_sandboxes(sandboxes: Sandboxes, notify: Callable[[str], None]) -> None:
    try:
        await asyncio.wait_for(sandboxes.close(), CLOSE_TIMEOUT_S)
    except Exception as error:  # noqa: BLE001  # the run's result is complete, so what cannot be closed is only reported
        notify(f"the sandboxes could not be closed: {describe_raised(error)}")


async def close_judge(judge: Judge, notify: Callable[[str], None]) -> None:
    """Let a judge release its resources; one that cannot is reported."""
    code = UserCode("the judge, being closed,", report=lambda _, text: notify(text), is_shared=True)
    try:
        await run_contained(judge.close, code, timeout_s=CLOSE_TIMEOUT_S)
    except CallTimeout as over:
        notify(f"the judge could not be closed within {CLOSE_TIMEOUT_S:g} s{over.place}")
    except Exception as error:  # noqa: BLE001  # the run's result is complete, so a judge that cannot be closed is only reported
        notify(f"the judge could not be closed: {describe_raised(error)}")


def make_training_sampling(run_info: RunInfo) -> Sampling:
    """Return the distribution that training episodes are sampled from."""
    rollout = run_info.config.rollout
    return Sampling(
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        max_tokens=rollout.max_response_length_in_one_turn,
    )


def make_validation_sampling(run_info: RunInfo) -> Sampling:
    """Return the distribution that validation episodes are sampled from; `do_sample: False` is greedy."""
    rollout = run_info.config.rollout
    options = rollout.val_kwargs
    return Sampling(
        temperature=options.temperature if options.do_sample else 0.0,
        top_p=options.top_p,
        top_k=options.top_k,
        max_tokens=rollout.max_response_length_in_one_turn,
    )
