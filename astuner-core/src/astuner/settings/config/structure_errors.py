"""Faults of values before their place is known, and their texts."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Literal, NoReturn, Union, get_args, get_origin

from attrs import evolve, frozen

from astuner.contract.errors import ProblemKind
from astuner.settings.config.places import KeyPath, format_path

NO_SUCH_KEY = "there is no such key."


@frozen(kw_only=True)
class Fault:
    """One value that does not fit, before its place is known."""

    message: str
    path: KeyPath = ()
    suggestion: str | None = None
    kind: ProblemKind | None = None


class FaultsError(Exception):
    """All faults of a value and of what it contains."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{format_path(fault.path)}: {fault.message}" for fault in self.faults))


class FaultCollector:
    """Makes calls that go on after a fault, and raises all faults at the end."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def __call__(self, step: str | int, structure: Callable[..., Any], value: Any, kind: Any) -> Any:
        """Return what `structure` makes of a value; None, with its faults recorded below `step`, when it cannot."""
        try:
            return structure(value, kind)
        except FaultsError as error:
            self.faults += [evolve(fault, path=(step, *fault.path)) for fault in error.faults]
        except (ValueError, TypeError) as error:
            # A hook or constructor of the component itself.
            self.faults.append(Fault(message=format_sentence(error), path=(step,)))
        return None

    def finish(self) -> None:
        """Raise the faults, if there are any."""
        if self.faults:
            raise FaultsError(self.faults)


def find_closest(word: object, right: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the right name that a misspelt one is most like, if any is."""
    return next(iter(difflib.get_close_matches(str(word), sorted(right), n=1, cutoff=likeness)), None)


def raise_mismatch(value: Any, kind: Any) -> NoReturn:
    """Raise the fault of a value of the wrong type."""
    message = f"expected {_describe_kind(kind)}, got {describe_value(value)}."
    if isinstance(value, str) and kind in (int, float, bool):
        message += " Remove the quotes." if _reads_as(value, kind) else ""
    elif kind is str and isinstance(value, bool | int | float):
        message += " Put it in quotes."
    raise FaultsError([Fault(message=message)])


def _reads_as(text: str, kind: type[Any]) -> bool:
    if kind is bool:
        return text.lower() in ("true", "false")
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _describe_kind(kind: Any) -> str:
    if is_union(kind):
        return " or ".join("nothing" if member is type(None) else _describe_kind(member) for member in get_args(kind))
    if is_literal(kind):
        return "one of " + ", ".join(str(item) for item in get_args(kind))
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}
    if kind in names:
        return names[kind]
    return "a list" if is_list(kind) else "a section"


def describe_value(value: Any) -> str:
    """Describe a value in an error text."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
        case Mapping():
            return "a section"
        case list() | tuple():
            return "a list"
        case _:
            return str(value)


def format_sentence(error: Exception) -> str:
    """Return the message of an error as a sentence."""
    # attrs' own validators carry more arguments than the message.
    text = str(error.args[0]) if error.args else type(error).__name__
    return text if text.endswith(".") else f"{text}."


def is_list(kind: Any) -> bool:
    """Whether a type is written as a YAML list."""
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Sequence | AbstractSet) and not issubclass(origin, str | bytes)


def is_union(kind: Any) -> bool:
    """Whether a type is a union."""
    return get_origin(kind) in (Union, types.UnionType)


def is_literal(kind: Any) -> bool:
    """Whether a type is a choice of values."""
    return get_origin(kind) is Literal
