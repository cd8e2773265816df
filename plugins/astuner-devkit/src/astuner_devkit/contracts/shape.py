"""Checks that rules share: the signatures of the methods that core calls, and that nothing is raised."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def assert_method(
    target: Any, name: str, takes: Sequence[str], *, blame: str, is_async: bool | None = False, doc: str = ""
) -> None:
    """Fail unless `target` (a class or an object) has a method of this name that accepts these arguments.

    `is_async` None accepts either form; `doc` says what core expects of it.
    """
    call = f"{'async def' if is_async else 'def'} {name}({', '.join(('self', *takes))})"
    method = inspect.getattr_static(target, name, None)
    assert method is not None, f"{blame} has no method `{name}`: write `{call}`. {doc}".rstrip()
    function = getattr(target, name)
    assert callable(function), f"{blame}: `{name}` is {function!r:.80}, which cannot be called: write `{call}`"
    needs_self = isinstance(target, type) and not isinstance(method, staticmethod | classmethod)
    if wrong := find_call_problem(function, ["self", *takes] if needs_self else takes):
        raise AssertionError(f"{blame}: core calls {name}({', '.join(takes)}), but its signature differs ({wrong}): `{call}`")
    written = inspect.unwrap(function)
    if is_async:
        assert inspect.iscoroutinefunction(written), f"{blame}: `{name}` is awaited, and so must be async: `{call}`"
    elif is_async is False:
        awaits = inspect.iscoroutinefunction(written) or inspect.isasyncgenfunction(written)
        assert not awaits, f"{blame}: `{name}` is not awaited, so it would not run; drop `async`: `{call}`"


@contextmanager
def forbid_errors(what: str, remedy: str) -> Iterator[None]:
    """Fail if anything is raised inside: `what raised TypeError: ...: remedy`."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}: {remedy}") from error


def find_call_problem(function: Any, arguments: Sequence[str]) -> str | None:
    """Return why a function cannot be called with these positional arguments; None if it can, or if unknown."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:  # written in C, without a signature
        return None
    return None
