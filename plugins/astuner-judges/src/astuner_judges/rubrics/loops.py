"""Asynchronous work for callers that are not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run in an event loop: of this thread, or, where one runs here already, of another thread, which is waited for.

    Some backbones make their judges while their loop runs.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    done: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            done.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            errors.append(error)

    thread = threading.Thread(target=run, name="astuner-rubrics")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return done[0]
