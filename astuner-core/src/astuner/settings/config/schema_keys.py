"""Every key there is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import attrs

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
