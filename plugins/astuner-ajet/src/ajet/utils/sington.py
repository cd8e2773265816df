"""Classes with one instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def singleton(cls: Callable[..., T]) -> Callable[..., T]:
    """Return a function that makes the instance when it is first called, and returns it from then on."""
    instances: list[T] = []

    def find_instance(*arguments: Any, **named: Any) -> T:
        if not instances:
            instances.append(cls(*arguments, **named))
        return instances[0]

    return find_instance
