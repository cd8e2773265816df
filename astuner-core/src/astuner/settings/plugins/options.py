"""From a section of the configuration to the `Options` of a component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import ConfigError
from astuner.contract.protocols.traits import find_options_class

if TYPE_CHECKING:
    from astuner.settings.config.places import Locate


def build_options(cls: Any, values: Mapping[str, Any] | None, *, key: str, locate: Locate = lambda key: None) -> Any:
    """Return the component's options, structured strictly, or None for one that takes none.

    Raises `ConfigError` below `key` for wrong values, and for any value given to a component without `Options`.
    """
    from astuner.settings.config.places import make_problem
    from astuner.settings.config.structuring import structure_options

    options = find_options_class(cls)
    if options is not None:
        return structure_options(options, values or {}, key=key, locate=locate)
    if values:
        given = ", ".join(map(repr, values))
        name = getattr(cls, "__qualname__", repr(cls))
        raise ConfigError([make_problem(key, f"{name} takes no options, so {given} would have no effect; remove it", locate)])
    return None
