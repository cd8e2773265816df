"""Whether a function of the user can be awaited, read off its definition."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_AWAITABLE = ("Awaitable", "Coroutine", "Future", "Task")


def is_plain_function(function: Any) -> bool:
    """Whether it is a plain `def`. A function that says it returns an awaitable is none, and neither is any other callable."""
    layers = list(_unwrap(function))
    if any(inspect.iscoroutinefunction(layer) for layer in layers):
        return False
    returned = str(getattr(layers[-1], "__annotations__", {}).get("return", ""))
    plain = inspect.isfunction(layers[-1]) or inspect.ismethod(layers[-1])
    return plain and not any(word in returned for word in _AWAITABLE)


def yields(function: Any) -> bool:
    """Whether it is a generator, sync or async."""
    return any(inspect.isasyncgenfunction(layer) or inspect.isgeneratorfunction(layer) for layer in _unwrap(function))


def format_place(function: Any) -> str:
    """Return ` (agent.py:12)` for a function that is written in Python, else nothing."""
    code = getattr(list(_unwrap(function))[-1], "__code__", None)
    return "" if code is None else f" ({Path(code.co_filename).name}:{code.co_firstlineno})"


def _unwrap(function: Any) -> Iterator[Any]:
    """Yield a function and those that decorators with `functools.wraps` put around."""
    for _ in range(100):
        yield function
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            return
        function = inner
