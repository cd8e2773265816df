"""Whether a command has to continue in the environment of its backbone, found before anything else of a run is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from astuner.contract.errors import AstunerError, SeveralStages, UsageError
from astuner.contract.protocols import BackboneTraits, read_traits
from astuner.settings.config.loading import load_config
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load

ENTERED = "ASTUNER_ENTERED_VENV"
"""The environment that this process was started in by another one of astuner's."""


def find_venv_of(conf: Path, overrides: Sequence[str], backbone: str | None, say: Callable[[str], object]) -> Path | None:
    """Return the environment that a command with a configuration continues in, as `find_venv` does.

    Problems of the configuration are left to the run itself.
    """
    try:
        loaded = load_config(conf, overrides, backbone)
    except SeveralStages as several:
        return find_venv_of(conf, [*overrides, f"stage={several.names[0]}"], backbone, say)
    except AstunerError:
        return None
    return find_venv(loaded.config.backbone, loaded.path.parent, say, loaded.config.plugins.disabled)


def find_venv(backbone: str, config_dir: Path, say: Callable[[str], object], disabled: Sequence[str] = ()) -> Path | None:
    """Return the environment that a command with a backbone continues in; None if it stays here. Imports the backbone's class.

    One that is missing or outdated is left to whoever plans the run. Raises `UsageError` if this is the environment, and lacks
    what it is for.
    """
    catalog = Catalog.discover(disabled, kinds=("backbone",))
    try:
        candidate = catalog.find("backbone", backbone, config_dir=config_dir, key="astuner.backbone")
        own = read_traits(load(candidate), BackboneTraits).own_venv
    except AstunerError:
        return None
    if own is None:
        return None
    came_from = os.environ.pop(ENTERED, None)
    state = own.examine(candidate.name)
    if came_from is not None and state.status != "in place":
        raise UsageError(
            f"{came_from}: is the environment of the backbone '{candidate.name}', and lacks its libraries. Delete it, and then: "
            f"{state.command}"
        )
    if state.status != "ready":
        return None
    if state.reason:
        say(f"the environment of the backbone '{candidate.name}' {state.reason}; {state.command} brings it up to date")
    return state.directory.resolve()
