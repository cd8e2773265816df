"""The section `plugins`, checked against what is installed before a run begins."""

from __future__ import annotations

from collections.abc import Sequence

from astuner.contract.errors import ConfigError, PluginError, Problem
from astuner.settings.config.loading import LoadedConfig
from astuner.settings.config.places import make_problem
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner.settings.plugins.options import build_options


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


def check_extension_options(loaded: LoadedConfig, catalog: Catalog) -> None:
    """Raise `ConfigError` for sections of extensions that are not installed, and for wrong options.

    An extension that cannot be imported is not this configuration's fault: the run's hooks report it.
    """
    sections = loaded.config.plugins.options
    extensions = catalog.candidates("hook")
    names = {candidate.name for candidate in extensions}
    problems: list[Problem] = []
    for name in sorted(set(sections) - names):
        message = "no such extension is installed and enabled."
        problems.append(make_problem(_make_key(name), message, loaded.locate, find_closest(name, names)))
    for candidate in extensions:
        try:
            build_options(load(candidate), sections.get(candidate.name), key=_make_key(candidate.name), locate=loaded.locate)
        except ConfigError as error:
            problems.extend(error.problems)
        except PluginError:
            continue
    if problems:
        raise ConfigError(problems)


def _make_key(name: str) -> str:
    return f"astuner.plugins.options.{name}"
