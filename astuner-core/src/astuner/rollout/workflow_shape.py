"""The shape that a user's workflow must have, read off its class or function; with the remedy for each fault."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from astuner.plugins.async_methods import format_place, is_plain_function, yields
from astuner.protocols.optional import NamesTargets, PlaysEpisodes, find_offer

FUNCTION_ARGUMENTS = {"task", "model", "auxiliary_models", "logger"}


class UnfitWorkflow(Exception):
    """The text continues a sentence that begins with the name of the workflow."""


def check_class(workflow: type[Any]) -> None:
    """Check that a class is made without arguments, and that its `execute` can be awaited."""
    if find_offer(workflow, PlaysEpisodes) is None:
        raise UnfitWorkflow("is a class without `async def execute(self, workflow_task, tuner)`")
    if inspect.isabstract(workflow):
        missing = ", ".join(sorted(workflow.__abstractmethods__))
        raise UnfitWorkflow(f"is an abstract class: it does not define {missing}")
    if needed := _list_required_arguments(workflow):
        place = format_place(workflow.__init__)
        raise UnfitWorkflow(
            f"is made for each episode without arguments, but its constructor{place} takes {', '.join(needed)}. "
            "Give them default values, or read them in `execute`"
        )
    _check_async(workflow.execute, f"{workflow.__name__}.execute", "async def execute(self, workflow_task, tuner)")


def check_function(function: Callable[..., Any]) -> None:
    """Check that a function can be awaited and takes the right arguments."""
    _check_async(function, "it", "async def workflow(task, model, ...)")
    names = set(inspect.signature(function).parameters)
    if not {"task", "model"} <= names <= FUNCTION_ARGUMENTS:
        raise UnfitWorkflow(
            f"takes ({', '.join(sorted(names))}); a workflow function takes "
            "`task` and `model`, and optionally `auxiliary_models` and `logger`"
        )


def read_targets(workflow: type[Any]) -> tuple[str, ...] | None:
    """Return the tags that a class names as trained; None if it trains every call."""
    naming = find_offer(workflow, NamesTargets)
    if naming is None:
        return None
    given: Any = naming.trainable_targets
    name = f"{workflow.__name__}.trainable_targets"
    if isinstance(given, str):
        raise UnfitWorkflow(f"names its targets as the text {given!r} in {name}. Write a list: trainable_targets = [{given!r}]")
    if not isinstance(given, Collection) or isinstance(given, bytes | Mapping):
        right = getattr(given, "default", None)
        example = right if _is_list_of_texts(right) else ["solver"]
        raise UnfitWorkflow(
            f"has a {name} that is {describe_object(given)}; it must be a list of target tags, or None to train every call. "
            f"Write trainable_targets = {example!r}"
        )
    targets = tuple(given)
    if not _is_list_of_texts(targets):
        raise UnfitWorkflow(f"has a {name} of {list(targets)!r}; each target tag must be a text")
    return targets


def describe_object(found: Any) -> str:
    """Describe an object without trusting its `repr`."""
    if found is None or isinstance(found, bool | int | float | str):
        return repr(found)
    return f"an object of the class {type(found).__name__}"


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _check_async(function: Any, name: str, right: str) -> None:
    if yields(function):
        raise UnfitWorkflow(
            f"is not played: {name}{format_place(function)} yields. It must return a WorkflowOutput: write `{right}`"
        )
    if is_plain_function(function):
        raise UnfitWorkflow(
            f"is synchronous: {name}{format_place(function)} is a plain `def`, and episodes are awaited. Write `{right}`"
        )


def _list_required_arguments(workflow: type[Any]) -> list[str]:
    try:
        parameters = inspect.signature(workflow).parameters.values()
    except (ValueError, TypeError):
        # Of a class that is not written in Python.
        return []
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in free]
