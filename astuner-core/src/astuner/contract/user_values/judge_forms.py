"""In which form a judge function is called, read off the names of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from astuner.contract.user_values.named_arguments import choose_arguments, list_names, list_unmet

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
    compute_reward = inspect.getattr_static(target, "compute_reward", None)
    if compute_reward is not None and not hasattr(target, "judge"):
        is_bound = not inspect.isfunction(compute_reward)
        try:
            read_form(target.compute_reward if is_bound else compute_reward, is_bound=is_bound)
        except TypeError as error:
            raise TypeError(f"compute_reward {error}") from error
    for name, given in (("judge", "group"), ("observe", "episode, environment")):
        method = inspect.getattr_static(target, name, None)
        if inspect.isfunction(method) and not _takes(method, len(given.split()) + 1):
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
