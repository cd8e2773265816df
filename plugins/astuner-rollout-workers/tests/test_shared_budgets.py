"""What LLMs may cost is one limit for all workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from astuner.shared.clients.llm_budget import Budget, Limits, LLMBudgetSpent, make_budget, share_budgets
from astuner_rollout_workers.remote_engine import DriverCalls
from astuner_rollout_workers.request_server import RequestServer
from astuner_rollout_workers.shared_budgets import SharedBudgets, WorkerBudgets


@asynccontextmanager
async def open_workers(shared: SharedBudgets, count: int = 2) -> AsyncIterator[list[tuple[Budget, RequestServer]]]:
    """Yield the budget of each worker, and its server in the driver; messages go by the loop, as by a socket."""
    made, loop = [], asyncio.get_running_loop()
    for _ in range(count):
        server = RequestServer(engine=None, send=lambda message: None, budgets=shared)  # type: ignore[arg-type]  # nothing is generated
        calls = DriverCalls(lambda message, server=server: loop.call_soon(server.take, message))
        server.send = lambda message, calls=calls: loop.call_soon(calls.take, message)  # type: ignore[misc]
        with share_budgets(WorkerBudgets(calls, loop).make):
            made.append((make_budget(Limits(max_requests=3)), server))
    yield made
    for _, server in made:
        await server.close()


def play(work: Callable[[list[tuple[Budget, RequestServer]]], Any]) -> Any:
    async def run() -> Any:
        async with open_workers(SharedBudgets()) as workers:
            return await work(workers)

    return asyncio.run(run())


def test_all_workers_together_keep_to_the_limit() -> None:
    async def spend(workers: list[tuple[Budget, RequestServer]]) -> None:
        for budget, _ in (*workers, workers[0]):
            budget.settle(await budget.acquire("text", 5), 1, 1)
        for budget, _ in workers:
            with pytest.raises(LLMBudgetSpent, match="max_requests: 3 is reached"):
                await budget.acquire("text", 5)

    play(spend)


def test_a_request_that_its_worker_did_not_settle_counts() -> None:
    async def spend(workers: list[tuple[Budget, RequestServer]]) -> None:
        (first, server), (second, _) = workers
        await first.acquire("text", 5)
        await server.close()
        for _ in range(2):
            second.settle(await second.acquire("text", 5), 1, 1)
        with pytest.raises(LLMBudgetSpent):
            await second.acquire("text", 5)

    play(spend)


def test_each_worker_knows_what_it_spent_itself() -> None:
    async def spend(workers: list[tuple[Budget, RequestServer]]) -> int:
        (first, _), (second, _) = workers
        first.settle(await first.acquire("text", 5), 1, 1)
        second.settle(await second.acquire("text", 5), 1, 1)
        return first.spent.requests

    assert play(spend) == 1


def test_elsewhere_a_budget_stands_alone() -> None:
    assert type(make_budget(Limits())) is Budget
