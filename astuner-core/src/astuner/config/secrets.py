"""The secrets of a configuration, taken out of whatever is said about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import attrs
from attrs import evolve, frozen

from astuner.config.redaction import REDACTED, is_secret, redact_text, redact_values
from astuner.config.structure_errors import NO_SUCH_KEY
from astuner.errors import AstunerError, ConfigError, Problem

_LONG_ENOUGH = 6
"""Shorter values would be found by chance in ordinary text."""
_SHOWN = 57
"""Of a long text a message shows so much."""
_GIVEN = re.compile(r"""(?P<name>(?<!\S)--?[A-Za-z][\w-]*(?:\s+|=)|(?<!\S)[A-Za-z_]\w*=)(?P<value>"[^"]*"|'[^']*'|[^\s"'-]\S*)""")
"""A flag with its value, or a variable with its own."""


@frozen
class Secrets:
    """The values that stand under keys such as `api_key`."""

    values: frozenset[str]

    @classmethod
    def of(cls, *trees: object) -> Secrets:
        """Collect from nested mappings and lists, and from attrs objects."""
        return cls(frozenset(value for tree in trees for value in _secret_values(tree, secret=False)))

    def hide(self, text: str) -> str:
        """Take the values out of a text, and whatever else looks like a secret."""
        return redact_values(_without(text, (value for value in self.values if len(value) >= _LONG_ENOUGH)))

    def hide_in_problem(self, problem: Problem) -> Problem:
        """Take the values out of a message; what is wrong at the key of a secret is told without any value."""
        message, suggestion = self.hide(problem.message), problem.suggestion
        if problem.key is not None and any(map(is_secret, problem.key.split("."))):
            message = _without(message, self.values)
            # The name of a key is no secret; what is like a value tells of the value.
            suggestion = suggestion if NO_SUCH_KEY in message else None
        return evolve(problem, message=message, suggestion=suggestion)

    def hide_in_error(self, error: BaseException) -> None:
        """Take the values out of what an error says, in place: whoever shows or stores it later knows no secrets."""
        if isinstance(error, ConfigError):
            error.problems = tuple(map(self.hide_in_problem, error.problems))
            error.args = ("\n".join(map(str, error.problems)),)
        elif isinstance(error, AstunerError):
            error.args = tuple(self.hide(item) if isinstance(item, str) else item for item in error.args)

    @contextmanager
    def hidden_in_errors(self) -> Iterator[None]:
        """Let no error leave the block with a value in it."""
        try:
            yield
        except AstunerError as error:
            self.hide_in_error(error)
            raise


def redact_command(arguments: Sequence[str]) -> list[str]:
    """Return a command line without the secrets that `--set` gives, or a flag such as `--password`."""
    found = []
    for before, argument in pairwise(["", *arguments]):
        secret = before.startswith("-") and "=" not in before and is_secret(before) and not argument.startswith("-")
        found.append(REDACTED if secret else _redacted(argument))
    return found


def _in_shell(text: str) -> str:
    """Take the secrets out of a whole command that is one argument, as a shell gets it."""

    def hidden(given: re.Match[str]) -> str:
        return given["name"] + REDACTED if is_secret(given["name"]) else given[0]

    return redact_values(_GIVEN.sub(hidden, text))


def _redacted(argument: str) -> str:
    import yaml

    key, equals, value = argument.partition("=")
    if " " in key:
        return _in_shell(argument)
    option = ""
    if key == "--set":
        option, (key, equals, value) = "--set=", value.partition("=")
    if equals and is_secret(key) and value:
        return f"{option}{key}={REDACTED}"
    try:
        return f"{option}{key}{equals}{redact_text(value)}" if equals else redact_values(argument)
    except yaml.YAMLError:
        return redact_values(argument)


def _secret_values(tree: Any, secret: bool) -> Iterator[str]:
    if attrs.has(type(tree)):
        tree = {item.name: getattr(tree, item.name) for item in attrs.fields(type(tree))}
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _secret_values(value, secret or is_secret(str(key)))
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _secret_values(item, secret)
    elif secret and tree is not None and not isinstance(tree, bool) and str(tree):
        yield str(tree)


def _without(text: str, values: Any) -> str:
    for value in sorted(values, key=len, reverse=True):
        # A message has the value itself, or its beginning, or what Python writes for either.
        for form in (value, value[:_SHOWN]):
            for written in (repr(form)[1:-1], form):
                text = text.replace(written, REDACTED)
    return text
