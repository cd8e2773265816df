"""An extension as core registers it: each hook method is guarded, so that answers and errors carry its name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import pluggy

from astuner.contract.errors import AstunerError, PluginError
from astuner.contract.hookspecs import hookimpl

Note = Callable[[Literal["answered", "wrapped"], str], None]
DECIDING = "astuner_make_"


class Extension:
    """Represents an object with hook methods in pluggy.

    pluggy compares and hashes what is registered, which breaks for objects with value equality; this compares by identity.
    """

    def __init__(self, blame: str) -> None:
        """Begin without hooks."""
        self.blame = blame
        """Who this is, with distribution and version."""
        self.hooks: list[str] = []
        """The hooks that it implements."""


def guard_extension(manager: pluggy.PluginManager, target: object, blame: str, note: Note, *, listens_only: bool) -> Extension:
    """Return the extension of an object; raises `ValueError` naming a hook method that cannot work.

    `note` is called for each answer and each wrapping of a deciding hook.
    """
    extension = Extension(blame)
    for hook, method, opts in iterate_marked_methods(manager, target):
        _check(hook, method, opts, listens_only)
        guard = _guard_wrapper if opts["wrapper"] else _guard
        implementation = hookimpl(
            guard(hook, method, blame, note),
            wrapper=opts["wrapper"],
            tryfirst=opts["tryfirst"],
            trylast=opts["trylast"],
            optionalhook=opts["optionalhook"],
            specname=hook,
        )
        # pluggy 1.6 looks for an attribute of the hook's name to tell who implements it.
        setattr(extension, hook if hook not in extension.hooks else f"{hook}_{len(extension.hooks)}", implementation)
        extension.hooks.append(hook)
    return extension


def iterate_marked_methods(manager: pluggy.PluginManager, target: object) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Yield the hook, the method and the options of each method marked `@astuner.hookimpl`, ordered by name."""
    for name in dir(target):
        opts = manager.parse_hookimpl_opts(target, name)
        if opts is not None:
            yield opts["specname"] or name, getattr(target, name), opts


def _check(hook: str, method: Callable[..., Any], opts: Mapping[str, Any], listens_only: bool) -> None:
    decides = hook.startswith(DECIDING)
    if opts["hookwrapper"]:
        raise ValueError(f"{hook}: hookwrapper=True is not supported; write wrapper=True")
    if opts["wrapper"] and not decides:
        raise ValueError(f"{hook} is an event: listeners are called one by one, so there is nothing to wrap; drop wrapper=True")
    if opts["wrapper"] and not inspect.isgeneratorfunction(method):
        raise ValueError(f"{hook}: a wrapper is a generator: `made = yield`, then `return made`")
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise ValueError(f"{hook}: hooks are called without an event loop; write `def`, not `async def`")
    if decides and listens_only:
        raise ValueError(f"{hook}: a component may only listen; an extension that decides belongs in the group `astuner.hooks`")
    parameters = inspect.signature(method).parameters.values()
    unfilled = [str(p).partition(":")[0] for p in parameters if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if unfilled:
        raise ValueError(f"{hook}: {', '.join(unfilled)} would never be filled; name the hook's arguments before any `*`")
    defaults = [p.name for p in parameters if p.default is not p.empty]
    if defaults:
        raise ValueError(f"{hook}: {', '.join(defaults)} must have no default value; the hook always gives it")


def _guard(hook: str, method: Callable[..., Any], blame: str, note: Note) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any) -> Any:
        with explain_errors(f"{blame} raised in {hook}"):
            answer = method(*args)
        if answer is not None:
            note("answered", blame)
        return answer

    return call


def _guard_wrapper(hook: str, method: Callable[..., Generator[None, Any, Any]], blame: str, note: Note) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any) -> Generator[None, Any, Any]:
        note("wrapped", blame)
        # Errors of inner implementations pass through here too; they already carry their blame.
        with explain_errors(f"{blame} raised in {hook}"):
            return (yield from method(*args))

    return call


@contextmanager
def explain_errors(what: str) -> Iterator[None]:
    """Raise an error of foreign code as a `PluginError` that begins with `what`; an `AstunerError` explains itself."""
    try:
        yield
    except AstunerError:
        raise
    except Exception as error:
        raise PluginError(f"{what}: {type(error).__name__}: {error}") from error
