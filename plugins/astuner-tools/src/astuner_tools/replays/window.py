"""Judging groups concurrently, and taking the results in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


async def map_in_order(
    given: Iterable[Given], ask: Callable[[Given], Awaitable[Found]], take: Callable[[Found], None], *, at_once: int
) -> None:
    """Ask about each item, `at_once` at a time, and take what was found in the order of the items.

    No more items than that are held, so that they may come from a file that is larger than the memory.
    """
    waiting: deque[asyncio.Task[Found]] = deque()

    async def start(item: Given) -> Found:
        return await ask(item)

    try:
        for item in given:
            if len(waiting) == at_once:
                take(await waiting[0])
                waiting.popleft()
            waiting.append(asyncio.create_task(start(item)))
        while waiting:
            take(await waiting[0])
            waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
