"""What LLMs may cost is one limit for all players."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from astuner.episodes.rollout_workers.desk import Desk
from astuner.episodes.rollout_workers.remote_engine import DriverCalls
from astuner.episodes.rollout_workers.shared_budgets import PlayerBudgets, SharedBudgets
from astuner.shared.clients.llm_budget import Budget, Limits, LLMBudgetSpent, make_budget, share_budgets


@asynccontextmanager
async def open_players(shared: SharedBudgets, count: int = 2) -> AsyncIterator[list[tuple[Budget, Desk]]]:
    """Yield the budget of each player, and its desk in the driver; messages go by the loop, as by a socket."""
    made, loop = [], asyncio.get_running_loop()
    for _ in range(count):
        desk = Desk(engine=None, send=lambda message: None, budgets=shared)  # type: ignore[arg-type]  # nothing is generated
        calls = DriverCalls(lambda message, desk=desk: loop.call_soon(desk.take, message))
        desk.send = lambda message, calls=calls: loop.call_soon(calls.take, message)  # type: ignore[misc]
        with share_budgets(PlayerBudgets(calls, loop).make):
            made.append((make_budget(Limits(max_requests=3)), desk))
    yield made
    for _, desk in made:
        await desk.close()


def play(work: Callable[[list[tuple[Budget, Desk]]], Any]) -> Any:
    async def run() -> Any:
        async with open_players(SharedBudgets()) as players:
            return await work(players)

    return asyncio.run(run())


def test_all_players_together_keep_to_the_limit() -> None:
    async def spend(players: list[tuple[Budget, Desk]]) -> None:
        for budget, _ in (*players, players[0]):
            budget.settle(await budget.acquire("text", 5), 1, 1)
        for budget, _ in players:
            with pytest.raises(LLMBudgetSpent, match="max_requests: 3 is reached"):
                await budget.acquire("text", 5)

    play(spend)


def test_a_request_that_its_player_did_not_settle_counts() -> None:
    async def spend(players: list[tuple[Budget, Desk]]) -> None:
        (first, desk), (second, _) = players
        await first.acquire("text", 5)
        await desk.close()
        for _ in range(2):
            second.settle(await second.acquire("text", 5), 1, 1)
        with pytest.raises(LLMBudgetSpent):
            await second.acquire("text", 5)

    play(spend)


def test_each_player_knows_what_it_spent_itself() -> None:
    async def spend(players: list[tuple[Budget, Desk]]) -> int:
        (first, _), (second, _) = players
        first.settle(await first.acquire("text", 5), 1, 1)
        second.settle(await second.acquire("text", 5), 1, 1)
        return first.spent.requests

    assert play(spend) == 1


def test_elsewhere_a_budget_stands_alone() -> None:
    assert type(make_budget(Limits())) is Budget
