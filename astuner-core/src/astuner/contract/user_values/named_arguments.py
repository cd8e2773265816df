"""Calling a user's function with those of the offered arguments that it names, and in which form a judge function is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

Form = Literal["plain", "tune", "verl", "trl"]

ARGUMENTS: Mapping[Form, tuple[str, ...]] = MappingProxyType(
    {
        "plain": ("workflow_task", "workflow_output"),
        "tune": ("task", "response", "auxiliary_models", "logger"),
        "verl": ("data_source", "solution_str", "ground_truth", "extra_info"),
        "trl": ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"),
    }
)
"""What each form offers; `trl` offers the columns of the row too."""
_MARKS: Sequence[tuple[Form, frozenset[str]]] = (
    ("tune", frozenset({"task", "response"})),
    ("trl", frozenset({"completions"})),
    ("trl", frozenset({"completion_ids"})),
    ("verl", frozenset({"solution_str"})),
)
"""The parameters by which a form is recognised."""

FORMS = (
    "A judge function takes (workflow_task, workflow_output), or by these names (task, response, auxiliary_models, logger) as in "
    "AgentScope, (data_source, solution_str, ground_truth, extra_info) as in verl, or (completions, prompts, ...) and columns of "
    "the data as in TRL; give other parameters a default"
)


def read_form(function: Callable[..., Any], *, is_bound: bool = True) -> Form:
    """Return how a judge function is called; raises `TypeError` if it cannot be. `is_bound` is False if `self` comes first."""
    names = list_names(function)
    form: Form = next((form for form, marks in _MARKS if marks <= {*names}), "plain")
    own = () if is_bound else names[:1]
    # Any other parameter of a function for TRL is a column.
    unmet = list_unmet(function, (*own, *ARGUMENTS[form], *(names if form == "trl" else ())))
    if not (takes_by_name(function, own) or _takes(function, 2 + len(own)) if form == "plain" else not unmet):
        lack = f"and nothing gives {', '.join(unmet)}" if unmet else "and cannot be given both arguments"
        raise TypeError(f"takes ({', '.join(names)}), {lack}. {FORMS}")
    return form


def takes_by_name(function: Callable[..., Any], own: Collection[str] = ()) -> bool:
    """Whether a function of the plain form gets its two arguments by their names; `own` are parameters that are met already."""
    offered = ARGUMENTS["plain"]
    return choose_arguments(function, offered) == [*offered] and not list_unmet(function, (*own, *offered))


def check_methods(target: type[Any]) -> None:
    """Raise `TypeError` if the methods of a class of judges cannot be called as they are."""
    is_whole = hasattr(target, "judge") and hasattr(target, "observe")
    compute_reward = inspect.getattr_static(target, "compute_reward", None)
    if compute_reward is not None and not is_whole:
        is_bound = not inspect.isfunction(compute_reward)
        try:
            read_form(target.compute_reward if is_bound else compute_reward, is_bound=is_bound)
        except TypeError as error:
            raise TypeError(f"compute_reward {error}") from error
    for name, given in (("judge", "group"), ("observe", "episode, environment")):
        method = inspect.getattr_static(target, name, None)
        if is_whole and inspect.isfunction(method) and not _takes(method, len(given.split()) + 1):
            raise TypeError(f"{name} takes ({', '.join(list_names(method))}), and is called as {name}({given})")


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments by position."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        # Of a function that is not written in Python.
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def choose_arguments(function: Callable[..., Any], offered: Collection[str]) -> list[str]:
    """Return the names of the offered arguments that a function takes; all of them if it takes any."""
    parameters = _read_parameters(function)
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return [name for name in offered if takes_any or (name in parameters and parameters[name].kind in _BY_NAME)]


def list_unmet(function: Callable[..., Any], offered: Collection[str]) -> list[str]:
    """Return the parameters without a default that no offered argument meets."""
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, parameter in _read_parameters(function).items()
        if parameter.default is parameter.empty
        and parameter.kind not in free
        and (name not in offered or parameter.kind not in _BY_NAME)
    ]


def list_names(function: Callable[..., Any]) -> list[str]:
    """Return the names that a function gives to its parameters."""
    return list(_read_parameters(function))


def _read_parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (ValueError, TypeError):
        # Of a function that is not written in Python.
        return {}
