"""From a section of the configuration to the `Options` of a component."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from astuner.errors import ConfigError, Problem

Locate = Callable[[str], tuple[Path, int] | None]


def _nowhere(key: str) -> None:
    return None


def options_for(cls: Any, values: Mapping[str, Any] | None, *, key: str, locate: Locate = _nowhere) -> Any:
    """Return the component's options, structured strictly, or None for one that takes none.

    Raises `ConfigError` below `key` for what does not fit, and for any value given to a component without `Options`.
    """
    from astuner.config.structuring import structure_options

    options = getattr(cls, "Options", None)
    if options is not None:
        return structure_options(options, values or {}, key=key, locate=locate)
    if not values:
        return None
    file, line = locate(key) or (None, None)
    given = ", ".join(map(repr, values))
    name = getattr(cls, "__qualname__", repr(cls))
    message = f"{name} takes no options, and {given} would have no effect; remove the section"
    raise ConfigError([Problem(key=key, message=message, file=file, line=line)])
