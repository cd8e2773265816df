"""Whether the backbone of a configuration has a virtual environment of its own, found before anything else of a run is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from astuner.contract.errors import AstunerError
from astuner.contract.protocols import BackboneTraits, read_traits
from astuner.settings.config.loading import load_config
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load

if TYPE_CHECKING:
    from astuner.contract.protocols import OwnVenv


def find_venv_of(conf: Path, overrides: Sequence[str], backbone: str | None) -> tuple[str, OwnVenv] | None:
    """Return the backbone of a configuration with what its environment is made of; None if it has none.

    Problems of the configuration are left to the run itself.
    """
    try:
        loaded = load_config(conf, overrides, backbone)
    except AstunerError:
        return None
    return find_venv(loaded.config.backbone, loaded.path.parent, loaded.config.plugins.disabled)


def find_venv(backbone: str, config_dir: Path, disabled: Sequence[str] = ()) -> tuple[str, OwnVenv] | None:
    """Return the name of a backbone with what its environment is made of; None if it has none. Imports its class."""
    catalog = Catalog.discover(disabled, kinds=("backbone",))
    try:
        candidate = catalog.find("backbone", backbone, config_dir=config_dir, key="astuner.backbone")
        own = read_traits(load(candidate), BackboneTraits).own_venv
    except AstunerError:
        return None
    return None if own is None else (candidate.name, own)
