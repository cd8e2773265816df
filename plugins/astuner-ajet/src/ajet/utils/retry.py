"""Calling a function again that failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from loguru import logger

T = TypeVar("T")


def retry_with_backoff(
    max_retry: int = 3, backoff_fn: Callable[[int], float] | None = None, max_retry_attr: str | None = None
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator that calls a function up to `max_retry` times, and raises what the last call raised.

    `backoff_fn` gives the seconds to wait after an attempt, counted from 0: 1, 2, 4 … by default. `max_retry_attr` names an
    attribute of the first argument that holds another number of calls.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        @wraps(function)
        def call(*arguments: Any, **named: Any) -> T:
            own = getattr(arguments[0], max_retry_attr, None) if max_retry_attr and arguments else None
            attempts = max(own if isinstance(own, int) and own > 0 else max_retry, 1)
            for attempt in range(attempts - 1):
                try:
                    return function(*arguments, **named)
                except Exception as error:  # noqa: BLE001 - any failure is tried again
                    logger.warning(f"{function.__name__} raised {error!r}, attempt {attempt + 1} of {attempts}")
                    time.sleep(2.0**attempt if backoff_fn is None else backoff_fn(attempt))
            return function(*arguments, **named)

        return call

    return decorate
