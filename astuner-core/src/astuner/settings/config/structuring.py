"""Plain values into attrs classes, strictly: only whole numbers are coerced, to float, and every fault is found at once.

An empty section (`data:` with nothing under it) is one without keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import attrs
import cattrs

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.components import ONE_OR_MANY, OPEN
from astuner.settings.config.places import Locate, format_path, is_override, make_problem
from astuner.settings.config.structure_errors import (
    NO_SUCH_KEY,
    Fault,
    FaultCollector,
    FaultsError,
    describe_value,
    find_closest,
    format_sentence,
    is_list,
    is_literal,
    is_union,
    raise_mismatch,
)
from astuner.settings.config.trainer import LoggerChoice

T = TypeVar("T")


def structure_options(cls: type[T], values: Mapping[str, Any], *, key: str, locate: Locate) -> T:
    """Make an attrs object from a section; raise `ConfigError` with all its faults.

    `key` is the section's dotted path (`astuner.task_judge.math`), `locate` finds where a key was written. One that `--set` makes
    null has its default, unless null is a value of it.
    """
    try:
        return get_converter().structure(dict(values), cls)
    except FaultsError as error:
        faulty = {str(fault.path[0]): locate(f"{key}.{fault.path[0]}") for fault in error.faults if len(fault.path) == 1}
        unset = {name for name, place in faulty.items() if values.get(name, "") is None and is_override(place)}
        if unset:
            return structure_options(
                cls, {name: value for name, value in values.items() if name not in unset}, key=key, locate=locate
            )
        raise ConfigError(locate_faults(error, key=key, locate=locate)) from error


def locate_faults(error: FaultsError, *, key: str, locate: Locate) -> list[Problem]:
    """Give faults below a key their places."""
    return [
        make_problem(format_path(fault.path, key), fault.message, locate, fault.suggestion, fault.kind) for fault in error.faults
    ]


@cache
def get_converter() -> cattrs.Converter:
    """Return the converter that all structuring goes through. It caches the hook of each type, so it must not be changed."""
    return make_converter()


def make_converter() -> cattrs.Converter:
    """Make such a converter, to be adapted."""
    converter = cattrs.Converter(unstruct_collection_overrides={tuple: list})
    for kind in (bool, int, str):
        converter.register_structure_hook(kind, _structure_exactly)
    converter.register_structure_hook(float, _structure_number)
    converter.register_structure_hook(Path, _structure_path)
    converter.register_unstructure_hook(Path, str)
    converter.register_structure_hook_factory(_is_enum, _structure_enum)
    converter.register_structure_hook_factory(is_literal, _structure_literal)
    converter.register_structure_hook_factory(is_list, _structure_list)
    converter.register_structure_hook_factory(_is_mapping, _structure_mapping)
    converter.register_structure_hook_factory(is_union, _structure_union)
    converter.register_structure_hook_factory(_is_attrs, _structure_attrs)
    structure_logger = converter.get_structure_hook(LoggerChoice)
    converter.register_structure_hook(LoggerChoice, lambda value, kind: structure_logger(_normalise_logger(value), kind))
    converter.register_unstructure_hook(LoggerChoice, lambda item: {item.name: dict(item.options)} if item.options else item.name)
    converter.register_unstructure_hook_factory(_is_open, _unstructure_open)
    return converter


Hook = Callable[[Any, Any], Any]


def _structure_exactly(value: Any, kind: type[Any]) -> Any:
    if type(value) is not kind:
        raise_mismatch(value, kind)
    return value


def _structure_number(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise_mismatch(value, float)
    if not math.isfinite(value):
        raise FaultsError([Fault(message=f"expected a finite number, got {value}.")])
    return float(value)


def _structure_path(value: Any, _: Any) -> Path:
    if not isinstance(value, str | Path):
        raise_mismatch(value, Path)
    return Path(value)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _structure_enum(kind: Any, _: cattrs.Converter) -> Hook:
    members = {member.value: member for member in kind}
    return lambda value, _: members[_check_choice(value, tuple(members))]


def _structure_literal(kind: Any, _: cattrs.Converter) -> Hook:
    return lambda value, _: _check_choice(value, get_args(kind))


def _check_choice(value: Any, right: tuple[Any, ...]) -> Any:
    # `True == 1`, so equality alone would let a boolean pass for a number.
    if any(type(value) is type(item) and value == item for item in right):
        return value
    names = ", ".join(str(item) for item in right)
    suggestion = find_closest(value, [item for item in right if isinstance(item, str)])
    raise FaultsError([Fault(message=f"expected one of {names}, got {describe_value(value)}.", suggestion=suggestion)])


def _structure_list(kind: Any, converter: cattrs.Converter) -> Hook:
    origin = get_origin(kind) or kind
    make = next((concrete for concrete in (tuple, list, frozenset, set) if issubclass(concrete, origin)), tuple)
    kinds = get_args(kind)
    fixed = origin is tuple and kinds and kinds[-1] is not Ellipsis

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise_mismatch(value, kind)
        if fixed and len(value) != len(kinds):
            raise FaultsError([Fault(message=f"expected a list of {len(kinds)} items, got {len(value)}.")])
        item_kinds = kinds if fixed else (kinds[0] if kinds else Any,) * len(value)
        collect = FaultCollector()
        items = [collect(index, converter.structure, item, item_kinds[index]) for index, item in enumerate(value)]
        collect.finish()
        return make(items)

    return structure


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _structure_mapping(kind: Any, converter: cattrs.Converter) -> Hook:
    key_kind, value_kind = get_args(kind) or (Any, Any)

    def structure(value: Any, _: Any) -> Any:
        value = {} if value is None else value
        if not isinstance(value, Mapping):
            raise_mismatch(value, kind)
        collect = FaultCollector()
        made = {
            collect(str(key), converter.structure, key, key_kind): collect(str(key), converter.structure, item, value_kind)
            for key, item in value.items()
        }
        collect.finish()
        return made

    return structure


def _structure_union(kind: Any, converter: cattrs.Converter) -> Hook:
    members = [member for member in get_args(kind) if member is not type(None)]
    optional = len(members) < len(get_args(kind))

    def structure(value: Any, _: Any) -> Any:
        if value is None and optional:
            return None
        # A value whose type is exactly one of the members is not converted to another: 1 stays whole in `float | int`.
        members_first = sorted(members, key=lambda member: type(value) is not member)
        errors = []
        for member in members_first:
            try:
                return converter.structure(value, member)
            except FaultsError as error:
                errors.append(error)
        # The member that got furthest gives the best message: a list with one wrong item is meant to be a list.
        inside = [error for error in errors if any(fault.path for fault in error.faults)]
        if len(members) == 1 or inside:
            raise (inside or errors)[0]
        return raise_mismatch(value, kind)

    return structure


def _is_attrs(kind: Any) -> bool:
    return attrs.has(get_origin(kind) or kind)


def _structure_attrs(kind: Any, converter: cattrs.Converter) -> Hook:
    cls = attrs.resolve_types(get_origin(kind) or kind)
    fields = {item.alias or item.name: item for item in attrs.fields(cls) if item.init}
    opened = next((item for item in fields.values() if item.metadata.get(OPEN)), None)
    named = {name: item for name, item in fields.items() if item is not opened}

    def structure(value: Any, _: Any) -> Any:
        value = {} if value is None else value
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise_mismatch(value, cls)
        collect = FaultCollector()
        made: dict[str, Any] = {}
        for name, item in named.items():
            if name in value:
                # Nothing is an empty text.
                given = item.default if value[name] is None and item.default == "" else value[name]
                if item.metadata.get(ONE_OR_MANY) and not isinstance(given, list | tuple):
                    given = [given]
                made[name] = collect(name, converter.structure, given, item.type if item.type is not None else Any)
            elif item.default is attrs.NOTHING:
                collect.faults.append(Fault(message="this key is required.", path=(name,)))
        others = {name: item for name, item in value.items() if name not in named}
        if opened is not None:
            own = [name for name, item in named.items() if attrs.has(item.type)]
            sections = {
                name: {} if item is None else item
                for name, item in others.items()
                if (item is None or isinstance(item, Mapping)) and find_closest(name, own, likeness=0.8) is None
            }
            made[opened.alias or opened.name] = sections
            others = {name: item for name, item in others.items() if name not in sections}
        for name in others:
            meant = find_closest(name, named)
            collect.faults.append(Fault(message=NO_SUCH_KEY, path=(str(name),), suggestion=meant, kind="unknown_key"))
        collect.faults += _run_validators(cls, made, skip={fault.path[0] for fault in collect.faults})
        collect.finish()
        return _construct(cls, made)

    return structure


def _run_validators(cls: type[Any], made: Mapping[str, Any], skip: AbstractSet[str | int]) -> list[Fault]:
    """Run each field's validator on its own: constructing the object would stop at the first that fails."""
    blank = object.__new__(cls)
    values = [(item, made[item.alias or item.name]) for item in attrs.fields(cls) if (item.alias or item.name) in made]
    for item, value in values:
        object.__setattr__(blank, item.name, value)
    collect = FaultCollector()
    for item, value in values:
        name = item.alias or item.name
        # A converter changes the value; the constructor validates the result.
        if item.validator is None or item.converter is not None or name in skip:
            continue
        # One that checks a field that was not given can only be run by the constructor.
        with suppress(AttributeError):
            collect(name, partial(item.validator, blank), item, value)
    return collect.faults


def _construct(cls: type[Any], made: Mapping[str, Any]) -> Any:
    try:
        return cls(**made)
    except (ValueError, TypeError) as error:
        raise FaultsError([Fault(message=format_sentence(error))]) from error


def _normalise_logger(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Mapping) and len(value) == 1:
        [(name, options)] = value.items()
        return {"name": name, "options": {} if options is None else options}
    raise FaultsError([Fault(message=f"expected a logger's name or {{name: {{options}}}}, got {describe_value(value)}.")])


def _is_open(kind: Any) -> bool:
    return attrs.has(kind) and any(item.metadata.get(OPEN) for item in attrs.fields(kind))


def _unstructure_open(cls: type[Any], converter: cattrs.Converter) -> Callable[[Any], dict[str, Any]]:
    opened = next(item.name for item in attrs.fields(cls) if item.metadata.get(OPEN))

    def unstructure(value: Any) -> dict[str, Any]:
        plain = {item.name: converter.unstructure(getattr(value, item.name)) for item in attrs.fields(cls)}
        return {**{name: item for name, item in plain.items() if name != opened}, **plain[opened]}

    return unstructure
