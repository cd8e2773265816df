"""Taking the secrets of a configuration out of messages about it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import attrs
from attrs import evolve, field, frozen

from astuner.contract.errors import AstunerError, ConfigError, Problem
from astuner.settings.config.interpolation import list_variables
from astuner.settings.config.redaction import REDACTED, is_secret, redact_text, redact_values
from astuner.settings.config.secret_forms import ORDINARY
from astuner.settings.config.secret_names import is_flag, is_secret_variable
from astuner.settings.config.trees import change_leaves

_LONG_ENOUGH = 6
"""Shorter values would be found by chance in ordinary text."""
_SHOWN = 57
"""Characters of a long text that a message shows."""
_GIVEN = re.compile(r"""(?P<name>(?<!\S)--?[A-Za-z][\w-]*(?:\s+|=)|(?<!\S)[A-Za-z_]\w*=)(?P<value>"[^"]*"|'[^']*'|[^\s"'-]\S*)""")
"""A flag with its value, or a variable with its own."""


@frozen
class Secrets:
    """The values of keys such as `api_key`, and those of environment variables that a configuration uses."""

    values: frozenset[str]
    variables: Mapping[str, str] = field(factory=dict)
    """What is shown in place of the value of a variable, `${oc.env:NAME}`, by the value."""

    @classmethod
    def of(cls, *trees: object, written: Iterable[str] = ()) -> Secrets:
        """Collect from nested mappings and lists, and from attrs objects; and from the variables of the environment.

        These are those that `written` texts name as `${oc.env:NAME}`, and all whose names mean a secret, as `OPENAI_API_KEY`.
        """
        values = frozenset(value for tree in trees for value in _find_secret_values(tree, secret=False))
        return cls(values, _find_variables(list_variables(written)))

    def hide(self, text: str) -> str:
        """Take the values out of a text, and whatever else looks like a secret."""
        for value, shown in sorted(self.variables.items(), key=lambda item: -len(item[0])):
            for written in (value, repr(value)[1:-1]):
                text = text.replace(written, shown)
        return redact_values(_remove_values(text, (value for value in self.values if len(value) >= _LONG_ENOUGH)))

    def hide_in_tree(self, value: Any) -> Any:
        """Return a copy of nested mappings and lists without the values, whatever the keys."""
        return change_leaves(value, lambda item, _: self.hide(item) if isinstance(item, str) else item)

    def hide_in_problem(self, problem: Problem) -> Problem:
        """Take the values out of a message; a problem with the key of a secret is reported without any value."""
        message, suggestion = self.hide(problem.message), problem.suggestion
        if problem.key is not None and any(map(is_secret, problem.key.split("."))):
            message = _remove_values(message, self.values)
            # The name of a key is not secret; a suggestion close to a value reveals the value.
            suggestion = suggestion if problem.kind == "unknown_key" else None
        return evolve(problem, message=message, suggestion=suggestion)

    def hide_in_error(self, error: BaseException) -> None:
        """Remove the values from an error's message, in place, before it is shown or stored."""
        if isinstance(error, ConfigError):
            error.problems = tuple(map(self.hide_in_problem, error.problems))
            error.args = ("\n".join(map(str, error.problems)),)
        elif isinstance(error, AstunerError):
            error.args = tuple(self.hide(item) if isinstance(item, str) else item for item in error.args)

    @contextmanager
    def hide_in_errors(self) -> Iterator[None]:
        """Let no error leave the block with a value in it."""
        try:
            yield
        except AstunerError as error:
            self.hide_in_error(error)
            raise


def _find_variables(names: Set[str]) -> dict[str, str]:
    """Return `${oc.env:NAME}` by value, without values that are found by chance in ordinary text: words, numbers and paths."""
    found = {}
    for name, value in os.environ.items():
        hidden = is_secret_variable(name) or (name in names and not value.startswith(("/", "./", "../", "~")))
        if hidden and len(value) >= _LONG_ENOUGH and not ORDINARY.fullmatch(value):
            found[value] = f"${{oc.env:{name}}}"
    return found


def redact_command(arguments: Sequence[str]) -> list[str]:
    """Return a command line without the secrets that `--set` gives, or a flag such as `--password`."""
    found = []
    for before, argument in pairwise(["", *arguments]):
        secret = is_flag(before) and not argument.startswith("-")
        found.append(REDACTED if secret else _redact_argument(argument))
    return found


def _redact_shell_command(text: str) -> str:
    """Take the secrets out of a whole command that is one argument, as a shell gets it."""

    def hide_value(given: re.Match[str]) -> str:
        return given["name"] + REDACTED if is_secret(given["name"]) else given[0]

    return redact_values(_GIVEN.sub(hide_value, text))


def _redact_argument(argument: str) -> str:
    import yaml

    key, equals, value = argument.partition("=")
    if " " in key:
        return _redact_shell_command(argument)
    option = ""
    if key == "--set":
        option, (key, equals, value) = "--set=", value.partition("=")
    if equals and is_secret(key) and value:
        return f"{option}{key}={REDACTED}"
    try:
        return f"{option}{key}{equals}{redact_text(value)}" if equals else redact_values(argument)
    except yaml.YAMLError:
        return redact_values(argument)


def _find_secret_values(tree: Any, secret: bool) -> Iterator[str]:
    if attrs.has(type(tree)):
        tree = {item.name: getattr(tree, item.name) for item in attrs.fields(type(tree))}
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _find_secret_values(value, secret or is_secret(str(key)))
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _find_secret_values(item, secret)
    elif secret and tree is not None and not isinstance(tree, bool) and str(tree):
        yield str(tree)


def _remove_values(text: str, values: Any) -> str:
    for value in sorted(values, key=len, reverse=True):
        # A message has the value itself, or its beginning, or what Python writes for either.
        for form in (value, value[:_SHOWN]):
            for written in (repr(form)[1:-1], form):
                text = text.replace(written, REDACTED)
    return text
