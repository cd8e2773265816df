"""Choosing the services that a user names with `--with`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from astuner.contract.errors import ConfigError, Problem, UsageError
from astuner.settings.config.paths import resolve_path
from astuner.settings.config.structure_errors import find_closest
from astuner.shared.services import Definition

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.hooks import Hooks

KIND = "service"


def choose_services(names: Sequence[str], run_info: RunInfo, catalog: Catalog, hooks: Hooks) -> dict[str, Definition]:
    """Return the services by name, in the order asked for; raises `UsageError` for an unknown name.

    The section `services` of the YAML goes before what packages define.
    """
    return {name: _resolve_cwd(_definition(name, run_info, catalog, hooks), run_info) for name in dict.fromkeys(names)}


def check_names(names: Sequence[str], run_info: RunInfo, catalog: Catalog) -> None:
    """Raise `UsageError` for an unknown name."""
    for name in names:
        # A path names its service itself.
        known = name in run_info.config.services or ":" in name or "->" in name or catalog.offers(KIND, name)
        if not known:
            raise UsageError(_describe_unknown(name, run_info, catalog))


def _definition(name: str, run_info: RunInfo, catalog: Catalog, hooks: Hooks) -> Definition:
    check_names([name], run_info, catalog)
    if name in run_info.config.services:
        return Definition(service=run_info.config.services[name])
    try:
        candidate = catalog.find(KIND, name, config_dir=run_info.config_dir, key=f"--with {name}")
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return hooks.make_service(candidate, run_info)


def _resolve_cwd(definition: Definition, run_info: RunInfo) -> Definition:
    if definition.service is None:
        return definition
    cwd = resolve_path(definition.service.cwd or ".", run_info.config_dir)
    return evolve(definition, service=evolve(definition.service, cwd=str(cwd)))


def _describe_unknown(name: str, run_info: RunInfo, catalog: Catalog) -> str:
    from astuner.shared.install_hints import command_for

    own = list(run_info.config.services)
    installed = [f"{c.name} ({c.provider})" for c in catalog.candidates(KIND)]
    what = f"--with {name}: no service '{name}'"
    if (command := command_for(KIND, name)) is not None:
        return f"{what}. It comes with {command.rpartition(' ')[2]}: {command}"
    close = find_closest(name, [*own, *(c.name for c in catalog.candidates(KIND))])
    there = f"{what}; the section `services` has {', '.join(own) or 'none'}; installed are {', '.join(installed) or 'none'}."
    return str(Problem(message=there, suggestion=close))
