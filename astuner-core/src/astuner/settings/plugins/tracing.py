"""Printing every hook call, for authors of extensions: `ASTUNER_TRACE_HOOKS=1`."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pluggy

from astuner.settings.config.redaction import redact_tree


def trace_calls(manager: pluggy.PluginManager) -> None:
    """Print each call and its outcome to stderr."""
    manager.add_hookcall_monitoring(_print_call, _print_outcome)


def _print_call(hook: str, implementations: Sequence[pluggy.HookImpl], arguments: Mapping[str, Any]) -> None:
    given = ", ".join(f"{name}={_format_argument(name, value)}" for name, value in arguments.items())
    asked = ", ".join(implementation.plugin_name for implementation in reversed(implementations))
    print(f"{hook}({given}) -> {asked or 'no implementation'}", file=sys.stderr)


def _format_argument(name: str, value: Any) -> str:
    if name != "options" or not attrs.has(type(value)):
        return reprlib.repr(value)
    # Options may hold keys and passwords.
    fields = redact_tree({item.name: getattr(value, item.name) for item in attrs.fields(type(value))})
    return f"{type(value).__name__}({', '.join(f'{key}={reprlib.repr(item)}' for key, item in fields.items())})"


def _print_outcome(outcome: pluggy.Result[Any], hook: str, *_: Any) -> None:
    error = outcome.exception
    result = reprlib.repr(outcome.get_result()) if error is None else f"raised {type(error).__name__}: {error}"
    print(f"{hook} = {result}", file=sys.stderr)
