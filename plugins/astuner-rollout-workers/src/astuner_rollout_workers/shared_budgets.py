"""Limits on what LLMs cost, held by the driver for all workers together."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from attrs import define, evolve, field

from astuner.shared.clients.llm_budget import Budget, Limits, Usage
from astuner_rollout_workers.messages import Acquire, Settle


@define(eq=False)
class SharedBudgets:
    """The driver's side: one budget for each that the workers make."""

    _budgets: dict[int, Budget] = field(factory=dict, init=False)
    _reserved: dict[int, tuple[Budget, Usage]] = field(factory=dict, init=False)
    _numbers: Iterator[int] = field(factory=itertools.count, init=False)

    async def acquire(self, request: Acquire) -> int:
        """Reserve what a request may cost, and return the number of the reservation; raises `LLMBudgetSpent`."""
        budget = self._budgets.setdefault(request.budget, Budget(request.limits))
        reserved = await budget.acquire(request.text, request.max_tokens)
        number = next(self._numbers)
        self._reserved[number] = (budget, reserved)
        return number

    def settle(self, reservation: int, prompt_tokens: int, completion_tokens: int, requests: int) -> None:
        """Replace a reservation by what was spent."""
        budget, reserved = self._reserved.pop(reservation)
        budget.settle(reserved, prompt_tokens, completion_tokens, requests)

    def give_up(self, reservation: int) -> None:
        """Count a reservation as spent: its worker ended in the middle of the request."""
        budget, reserved = self._reserved.pop(reservation)
        budget.settle(reserved, reserved.prompt_tokens, reserved.completion_tokens)


class Reserves(Protocol):
    """What a worker reserves through."""

    send: Callable[[Any], None]

    async def acquire(self, budget: int, limits: Limits, text: str, max_tokens: int) -> int:
        """Reserve what a request may cost, and return the number of the call."""


class WorkerBudgets:
    """Makes the budgets of a worker, in the order in which every worker makes them."""

    def __init__(self, driver: Reserves, loop: asyncio.AbstractEventLoop) -> None:
        """`loop` is the one that talks to the driver."""
        self._driver, self._loop = driver, loop
        self._numbers = itertools.count()

    def make(self, limits: Limits) -> Budget:
        """Make the next one."""
        return WorkerBudget(next(self._numbers), limits, self._driver, self._loop)


class WorkerBudget(Budget):
    """Counts what this worker spends, and asks the driver whether it may."""

    def __init__(self, number: int, limits: Limits, driver: Reserves, loop: asyncio.AbstractEventLoop) -> None:
        """`number` identifies the budget in all workers."""
        super().__init__(evolve(limits, max_requests=None, max_tokens=None, max_cost=None))
        self._number, self._shared, self._driver, self._home = number, limits, driver, loop
        self._reservations: dict[int, int] = {}
        self._guard = threading.Lock()

    async def acquire(self, text: str, max_tokens: int) -> Usage:
        """Reserve what a request that starts now may cost; waits and raises as the driver's budget does."""
        asking = asyncio.run_coroutine_threadsafe(self._driver.acquire(self._number, self._shared, text, max_tokens), self._home)
        reservation = await asyncio.wrap_future(asking)
        mine = await super().acquire(text, max_tokens)
        with self._guard:
            self._reservations[id(mine)] = reservation
        return mine

    def settle(self, reserved: Usage, prompt_tokens: int = 0, completion_tokens: int = 0, requests: int = 1) -> float:
        """Replace the reservation of a request by its actual usage; return its cost."""
        with self._guard:
            reservation = self._reservations.pop(id(reserved))
        settled = Settle(call=reservation, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, requests=requests)
        self._home.call_soon_threadsafe(self._driver.send, settled)
        return super().settle(reserved, prompt_tokens, completion_tokens, requests)
