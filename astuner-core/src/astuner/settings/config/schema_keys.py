"""Every key there is, and what core does with it whatever the backbone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import attrs
from attrs import frozen

from astuner.settings.config.components import OPEN
from astuner.settings.config.model import Config
from astuner.settings.config.places import format_path


@cache
def walk_schema() -> tuple[str, ...]:
    """Return the dotted path of every key there is, without the root; `task_reader.*` and the like where names are free."""
    return tuple(_walk(Config, ""))


def _walk(cls: type[Any], start: str) -> Iterator[str]:
    for item in attrs.fields(attrs.resolve_types(cls)):
        path = format_path((item.name,), start)
        if item.metadata.get(OPEN):
            yield f"{start}.*"
        elif attrs.has(item.type):
            yield from _walk(item.type, path)
        elif getattr(item.default, "factory", None) is dict:
            yield f"{path}.*"
        else:
            yield path


@frozen(kw_only=True)
class CoreKeys:
    """Patterns of keys, from `core_keys.toml`, which says what each list is for."""

    honoured: Sequence[str]
    may_change: Sequence[str]
    inapplicable: Mapping[str, str]
    refused: Mapping[str, str]
    before: Mapping[str, Any]


@cache
def read_core_keys() -> CoreKeys:
    """Return the patterns."""
    return CoreKeys(**tomllib.loads(files("astuner.settings.config").joinpath("core_keys.toml").read_text(encoding="utf-8")))
