"""Trinity's default configuration, and its own check of one. Imports no torch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from astuner.contract.errors import PluginError
from astuner.settings.config.structure_errors import Fault


def trinity_defaults() -> Mapping[str, Any]:
    """Return the configuration of Trinity's dataclasses, nested; raises `PluginError` if Trinity is not installed."""
    return copy.deepcopy(dict(_defaults()))


@cache
def _defaults() -> Mapping[str, Any]:
    try:
        from trinity.common.config import Config
    except ImportError as error:
        raise PluginError(f"Trinity cannot be imported ({error}): astuner setup trinity") from error
    found: Mapping[str, Any] = to_plain(Config())
    return found


def to_plain(value: Any) -> Any:
    """Return dataclasses as mappings and enumerations as their values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    return value


def find_loader_faults(native: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Return the errors of Trinity's own loader for a configuration."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from trinity.common.config import Config

    try:
        differing = drop_defaults(native, _defaults())
        OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.create(differing)))
    except OmegaConfBaseException as error:
        path = tuple((error.full_key or "").replace("[", ".").replace("]", "").split("."))
        said = str(error.msg or error).strip().partition("\n")[0]
        return (Fault(path=path if path != ("",) else (), message=f"Trinity says: {said}."),)
    return ()


def drop_defaults(native: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs from the defaults: a readable configuration."""
    found: dict[str, Any] = {}
    for key, value in native.items():
        default = defaults.get(key)
        if isinstance(value, Mapping) and isinstance(default, Mapping) and default:
            inner = drop_defaults(value, default)
            if inner:
                found[key] = inner
        elif key not in defaults or value != default:
            found[key] = value
    return found
