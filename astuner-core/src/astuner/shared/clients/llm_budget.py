"""The cost of requests to an LLM: counted per request, and limited before a request is sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from operator import add, sub
from typing import Any

from attrs import evolve, field, fields, frozen
from attrs.validators import ge, optional

from astuner.contract.errors import AstunerError

_BYTES_PER_TOKEN = 3
"""Lower bound of the bytes per token, to estimate the tokens of a prompt, which only the API knows."""


class LLMBudgetSpent(AstunerError):
    """A limit does not allow another request."""


@frozen(kw_only=True)
class Usage:
    """Requests, tokens and cost so far."""

    requests: int = 0
    """Sent to the API, retries not counted."""
    cached: int = 0
    """Answered by the cache."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """In the currency of the prices."""

    def __add__(self, other: Usage) -> Usage:
        return self._combine(other, add)

    def __sub__(self, other: Usage) -> Usage:
        return self._combine(other, sub)

    def _combine(self, other: Usage, operate: Callable[[float, float], Any]) -> Usage:
        return Usage(**{item.name: operate(getattr(self, item.name), getattr(other, item.name)) for item in fields(Usage)})


@frozen(kw_only=True)
class Limits:
    """Limits on spending, and prices. None is no limit."""

    max_requests: int | None = field(default=None, validator=optional(ge(0)))
    max_tokens: int | None = field(default=None, validator=optional(ge(0)))
    """Of prompts and answers together."""
    max_cost: float | None = field(default=None, validator=optional(ge(0)))
    prompt_price: float = field(default=0.0, validator=ge(0))
    """Per million tokens."""
    completion_price: float = field(default=0.0, validator=ge(0))
    """Per million tokens."""

    def compute_cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of these tokens."""
        return (prompt_tokens * self.prompt_price + completion_tokens * self.completion_price) / 1e6


class Budget:
    """Counts what clients spend together, and stops them before a limit. Thread-safe.

    A request under way counts with the most that it may cost, so that concurrent requests keep to the limits too; the tokens of
    its prompt are estimated until the API reports them.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        """Start with nothing spent."""
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._spent = Usage()
        self._reserved = Usage()
        self._running: dict[int, Usage] = {}
        """Reservations of requests under way, by identity; each is settled soon."""
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def spent(self) -> Usage:
        """The usage so far, without requests under way."""
        with self._lock:
            return self._spent

    def reserve(self, text: str, max_tokens: int) -> Usage:
        """Reserve what a request with this text may cost; pass it to `settle` later. Raises `LLMBudgetSpent`."""
        wanted = self._estimate(text, max_tokens)
        with self._lock:
            self._check(self._spent + self._reserved + wanted)
            self._reserved = self._reserved + wanted
        return wanted

    async def acquire(self, text: str, max_tokens: int) -> Usage:
        """Reserve what a request that starts now may cost; pass it to `settle` when it ends.

        Waits while requests under way may leave enough of what they reserved. Raises `LLMBudgetSpent` if they cannot.
        """
        wanted, woken = self._estimate(text, max_tokens), asyncio.Event()
        waiter = asyncio.get_running_loop(), woken
        try:
            while True:
                woken.clear()
                with self._lock:
                    if self._find_exceeded(self._spent + self._reserved + wanted) is None:
                        self._reserved = self._reserved + wanted
                        self._running[id(wanted)] = wanted
                        return wanted
                    # What is under way may cost less than reserved, but it stays a request.
                    least = self._reserved
                    for running in self._running.values():
                        least = least - evolve(running, requests=0)
                    self._check(self._spent + least + wanted)
                    self._waiting.add(waiter)
                await woken.wait()
        finally:
            with self._lock:
                self._waiting.discard(waiter)

    def settle(self, reserved: Usage, prompt_tokens: int = 0, completion_tokens: int = 0, requests: int = 1) -> float:
        """Replace the reservation of a request by its actual usage; return its cost."""
        cost = self._limits.compute_cost(prompt_tokens, completion_tokens)
        taken = Usage(requests=requests, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cost=cost)
        with self._lock:
            self._spent = self._spent + taken
            self._reserved = self._reserved - reserved
            self._running.pop(id(reserved), None)
            waiting = list(self._waiting)
        for loop, woken in waiting:
            # Its loop may have ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)
        return cost

    def count_cached(self) -> None:
        """Count an answer that cost nothing."""
        with self._lock:
            self._spent = evolve(self._spent, cached=self._spent.cached + 1)

    def _estimate(self, text: str, max_tokens: int) -> Usage:
        prompt = len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN
        cost = self._limits.compute_cost(prompt, max_tokens)
        return Usage(requests=1, prompt_tokens=prompt, completion_tokens=max_tokens, cost=cost)

    def _check(self, total: Usage) -> None:
        exceeded = self._find_exceeded(total)
        if exceeded is not None:
            name, limit, value, unit = exceeded
            raise LLMBudgetSpent(
                f"the limit {name}: {limit:g} is reached ({self._describe_spent()}); another request may bring it to "
                f"{value:g} {unit}".rstrip()
            )

    def _find_exceeded(self, total: Usage) -> tuple[str, float, float, str] | None:
        """Return the first limit that a usage exceeds, by the name of its option."""
        limits, tokens = self._limits, total.prompt_tokens + total.completion_tokens
        for name, limit, value, unit in (
            ("max_requests", limits.max_requests, total.requests, "requests"),
            ("max_total_tokens", limits.max_tokens, tokens, "tokens"),
            ("max_cost", limits.max_cost, total.cost, ""),
        ):
            if limit is not None and value > limit + 1e-12:
                return name, limit, value, unit
        return None

    def _describe_spent(self) -> str:
        spent, under_way = self._spent, len(self._running)
        tokens = spent.prompt_tokens + spent.completion_tokens
        more = f", {under_way} requests under way" if under_way else ""
        return f"spent: {spent.requests} requests, {tokens} tokens, cost {spent.cost:g}{more}"


_make_budget: ContextVar[Callable[[Limits], Budget]] = ContextVar("what makes budgets", default=Budget)


def make_budget(limits: Limits) -> Budget:
    """Make the budget of a client; in a process that plays a share of a run's episodes, one that all of them share."""
    return _make_budget.get()(limits)


@contextmanager
def share_budgets(make: Callable[[Limits], Budget]) -> Iterator[None]:
    """Let `make_budget` use this function in the block, and in the threads that it starts with `asyncio.to_thread`."""
    token = _make_budget.set(make)
    try:
        yield
    finally:
        _make_budget.reset(token)
