"""The shape that a user's workflow must have, read off its class or function; with the remedy for each fault."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from types import FunctionType
from typing import Any

from astuner.contract.protocols import WorkflowTraits, has_methods, read_traits
from astuner.contract.user_values.named_arguments import list_names, list_unmet
from astuner.settings.plugins.async_methods import format_place, yields

FUNCTION_ARGUMENTS = {"task", "model", "auxiliary_models", "logger"}


class UnfitWorkflow(Exception):
    """The text continues a sentence that begins with the name of the workflow."""


def check_class(workflow: type[Any]) -> None:
    """Check that a class is made without arguments, and that its `execute` returns one output for two arguments."""
    if not has_methods(workflow, "execute"):
        raise UnfitWorkflow("is a class without `execute`: write `async def execute(self, workflow_task, tuner)`")
    if inspect.isabstract(workflow):
        missing = ", ".join(sorted(workflow.__abstractmethods__))
        raise UnfitWorkflow(f"is an abstract class: it does not define {missing}")
    makes_itself = has_methods(workflow, "from_run") or read_traits(workflow, WorkflowTraits).runs_in_sandboxes
    if not makes_itself and (needed := _list_required_arguments(workflow)):
        place = format_place(workflow.__init__)
        raise UnfitWorkflow(
            f"is made for each episode without arguments, but its constructor{place} takes {', '.join(needed)}. "
            "Give them default values, or read them in `execute`"
        )
    _check_returns(workflow.execute, f"{workflow.__name__}.execute", "async def execute(self, workflow_task, tuner)")
    _check_arguments(workflow)


def check_function(function: Callable[..., Any]) -> None:
    """Check that a function returns one output and takes the right arguments."""
    _check_returns(function, "it", "async def workflow(task, model, ...)")
    names = set(list_names(function))
    if not {"task", "model"} <= names or list_unmet(function, FUNCTION_ARGUMENTS):
        raise UnfitWorkflow(
            f"takes ({', '.join(sorted(names))}); a workflow function takes "
            "`task` and `model`, and optionally `auxiliary_models` and `logger`"
        )


def read_targets(workflow: type[Any]) -> tuple[str, ...] | None:
    """Return the tags that a class names as trained; None if it trains every call."""
    given: Any = _read_default(workflow, getattr(workflow, "trainable_targets", None))
    if given is None:
        return None
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


def _read_default(workflow: type[Any], given: Any) -> Any:
    """Return the default of a field of pydantic, where a class declares its targets as one; anything else as it is."""
    # A pydantic model has its fields aside: the class itself lacks the attribute, as if every call were trained.
    fields = getattr(workflow, "model_fields", None)
    field: Any = fields.get("trainable_targets") if given is None and isinstance(fields, Mapping) else given
    if type(field).__name__ != "FieldInfo" or not callable(get_default := getattr(field, "get_default", None)):
        return field
    return get_default(call_default_factory=True)


def describe_object(found: Any) -> str:
    """Describe an object without trusting its `repr`."""
    if found is None or isinstance(found, bool | int | float | str):
        return repr(found)
    return f"an object of the class {type(found).__name__}"


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _check_returns(function: Any, name: str, right: str) -> None:
    if yields(function):
        raise UnfitWorkflow(
            f"is not played: {name}{format_place(function)} yields. It must return a WorkflowOutput: write `{right}`"
        )


def _check_arguments(workflow: type[Any]) -> None:
    """Refuse an `execute` that cannot be called with a task and a tuner; one that takes any arguments is fine."""
    found = inspect.getattr_static(workflow, "execute", None)
    if not isinstance(found, FunctionType | staticmethod | classmethod):
        # An object that is called, or a descriptor, decides itself.
        return
    try:
        inspect.signature(workflow.execute).bind(*[None] * (3 if isinstance(found, FunctionType) else 2))
    except ValueError:
        return
    except TypeError as error:
        raise UnfitWorkflow(
            f"cannot be played: {workflow.__name__}.execute{format_place(workflow.execute)} is called with a task and a tuner, "
            f"and cannot be ({error}). Write `async def execute(self, workflow_task, tuner)`"
        ) from error


def _list_required_arguments(workflow: type[Any]) -> list[str]:
    try:
        parameters = inspect.signature(workflow).parameters.values()
    except (ValueError, TypeError):
        # Of a class that is not written in Python.
        return []
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in free]
