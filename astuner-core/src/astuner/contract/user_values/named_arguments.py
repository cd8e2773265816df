"""Calling a user's function with those of the offered arguments that it names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

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
