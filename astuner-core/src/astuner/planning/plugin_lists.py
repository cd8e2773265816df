"""The lists `plugins.required` and `plugins.disabled`, checked against what is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from astuner.config.structure_errors import find_closest
from astuner.errors import ConfigError, Problem

if TYPE_CHECKING:
    from astuner.plugins.catalog import Catalog


def check_required(catalog: Catalog, required: Sequence[str]) -> None:
    """Refuse a run without one of the distributions that it requires."""
    from packaging.utils import canonicalize_name

    installed = {canonicalize_name(candidate.dist) for candidate in catalog.all() if candidate.dist}
    problems = [
        Problem(
            key=f"astuner.plugins.required[{position}]",
            message=f"'{name}' is not installed or is disabled: pip install {name}.",
            suggestion=find_closest(name, installed),
        )
        for position, name in enumerate(required)
        if canonicalize_name(name) not in installed
    ]
    if problems:
        raise ConfigError(problems)


def check_disabled(catalog: Catalog, disabled: Sequence[str]) -> None:
    """Refuse a name that disables nothing but is similar to one that would; any other may be meant for another machine."""
    names = {name for candidate in catalog.all() for name in (candidate.name, candidate.dist) if name is not None}
    idle = catalog.find_ineffective(disabled)
    similar = {position: find_closest(name, names) for position, name in enumerate(disabled) if name in idle}
    problems = [
        Problem(key=f"astuner.plugins.disabled[{position}]", message="nothing with this name is installed.", suggestion=meant)
        for position, meant in similar.items()
        if meant is not None
    ]
    if problems:
        raise ConfigError(problems)
