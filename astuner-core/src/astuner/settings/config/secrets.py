"""Taking the secrets of a configuration out of messages about it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import pairwise
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import attrs
from attrs import evolve, field, frozen

from astuner.contract.errors import AstunerError, ConfigError, Problem
from astuner.settings.config.interpolation import list_variables
from astuner.settings.config.places import format_path
from astuner.settings.config.redaction import REDACTED, is_secret, redact_text, redact_values
from astuner.settings.config.secret_forms import ORDINARY
from astuner.settings.config.secret_names import is_flag, is_secret_variable
from astuner.settings.config.trees import change_leaves

_LONG_ENOUGH = 6
"""Shorter values would be found by chance in ordinary text."""
_SHOWN = 32
"""Characters that a message shows of a long text at least."""
_NAMES = frozenset({"astuner.project_name", "astuner.experiment_name", "astuner.experiment_dir"})
"""Keys whose values are labels, if they were taken: `Secrets.make_label`."""
_PARTS = re.compile(r"[/:\s]|->")
_GIVEN = re.compile(r"""(?P<name>(?<!\S)--?[A-Za-z][\w-]*(?:\s+|=)|(?<!\S)[A-Za-z_]\w*=)(?P<value>"[^"]*"|'[^']*'|[^\s"'-]\S*)""")
"""A flag with its value, or a variable with its own."""


@frozen
class Secrets:
    """The values of keys such as `api_key`, and those of environment variables that a configuration uses."""

    values: frozenset[str]
    variables: Mapping[str, str] = field(factory=dict)
    """What is shown in place of the value of a variable, `${oc.env:NAME}`, by the value."""
    taken: Sequence[tuple[str, str, str]] = ()
    """Key, text and how it is written of all that the configuration has taken from the environment; words and paths too."""

    @classmethod
    def of(cls, *trees: object, from_environment: Mapping[str, str] = MappingProxyType({})) -> Secrets:
        """Collect from nested mappings and lists, and from attrs objects; and from the variables of the environment.

        These are those that `from_environment` takes values of, whose keys are dotted paths in the first tree, and all whose
        names mean a secret, as `OPENAI_API_KEY`.
        """
        values = frozenset(value for tree in trees for value in _find_secret_values(tree, secret=False))
        taken = list(_list_taken(trees[0], from_environment)) if from_environment else []
        texts = {text: written for key, text, written in taken if key not in _NAMES and _is_found(text)}
        return cls(values, texts | _find_variables(list_variables(from_environment.values())), taken)

    def hide(self, text: str) -> str:
        """Take the values out of a text, and whatever else looks like a secret."""
        text = _replace_values(text, self.variables)
        return redact_values(_replace_values(text, {value: REDACTED for value in self.values if len(value) >= _LONG_ENOUGH}))

    def make_label(self, name: str) -> str:
        """Return a name with the names of variables in place of their values, and a short digest that tells values apart."""
        hidden = _replace_values(name, self.variables)
        label = re.sub(r"[^\w./-]+", "", hidden.replace("oc.env:", ""))
        return name if hidden == name else f"{label}-{hashlib.sha256(name.encode()).hexdigest()[:4]}"

    def hide_in_tree(self, value: Any) -> Any:
        """Return a copy of a tree that was made from the configuration, without the values, whatever the keys."""
        written = {text: written for _, text, written in self.taken}

        def hide(item: Any, _: object) -> Any:
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                return item
            text = self._hide_words(written.get(str(item), str(item)))
            return item if text == str(item) and not isinstance(item, str) else self.hide(text)

        return change_leaves(value, hide)

    def hide_in_problem(self, problem: Problem) -> Problem:
        """Take the values out of a message; a problem with the key of a secret is reported without any value."""
        key, suggestion = problem.key or "", problem.suggestion
        its_own = {text: written for place, text, written in self.taken if f"{key}.".startswith((f"{place}.", f"{place}["))}
        # A message may have a path that was made absolute, or the parts of `file.py:Class`.
        parts = {part: its_own[text] for text in its_own for part in _PARTS.split(text) if len(part) >= _LONG_ENOUGH}
        message = self.hide(self._hide_words(_replace_values(problem.message, parts | its_own)))
        if any(map(is_secret, key.split("."))):
            message = _replace_values(message, dict.fromkeys(self.values, REDACTED))
            # The name of a key is not secret; a suggestion close to a value reveals the value.
            suggestion = suggestion if problem.kind == "unknown_key" else None
        if its_own:
            # What is below a key that is taken as a whole is part of the value.
            suggestion, key = None, next(place for place, text, _ in self.taken if text in its_own)
        return evolve(problem, message=message, suggestion=suggestion, key=key or None)

    def _hide_words(self, text: str) -> str:
        for _, word, written in sorted(self.taken, key=lambda one: -len(one[1])):
            if len(word) >= _LONG_ENOUGH and word in text:
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", lambda _, new=written: new, text)  # type: ignore[misc]
        return text

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
        secret = is_secret_variable(name)
        if (secret or name in names) and _is_found(value, paths=secret):
            found[value] = f"${{oc.env:{name}}}"
    return found


def _is_found(text: str, *, paths: bool = False) -> bool:
    """Whether a text is found by more than chance: words, numbers and paths are not."""
    is_path = text.startswith(("/", "./", "../", "~"))
    return len(text) >= _LONG_ENOUGH and not ORDINARY.fullmatch(text) and (paths or not is_path)


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


def _replace_values(text: str, shown: Mapping[str, str]) -> str:
    """Replace values by what is shown of them: as they are, as Python and addresses have them, and cut off."""
    for value in sorted(shown, key=len, reverse=True):
        for form in dict.fromkeys((repr(value)[1:-1], value, quote(value, safe=""))):
            text = text.replace(form, shown[value])
            # A message may have the beginning of it.
            while form[:_SHOWN] not in shown[value] and len(form) > _SHOWN and (start := text.find(form[:_SHOWN])) >= 0:
                end = next(start + count for count in range(len(form), 0, -1) if text.startswith(form[:count], start))
                text = text[:start] + shown[value] + text[end:]
    return text


def _list_taken(tree: Any, from_environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    found: dict[str, Any] = {}
    is_taken = from_environment.__contains__
    change_leaves(
        tree, lambda value, path: found.update({format_path(path): value}), (), lambda path: is_taken(format_path(path))
    )
    for key, written in from_environment.items():
        yield from ((key, text, written) for text in _list_texts(found.get(key)) if text != written)


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _list_texts(item)
    elif value is not None and not isinstance(value, bool) and str(value):
        yield str(value)
