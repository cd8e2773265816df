"""Continuing a command in the virtual environment of its backbone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from astuner.contract.errors import AstunerError, PluginError


def enter_venv_of(conf: Path, overrides: Sequence[str], backbone: str | None) -> None:
    """Raise `EnterVenv` if the backbone of a configuration has an environment that is ready and is not this one.

    Problems of the configuration are left to the command itself.
    """
    from astuner.settings.config.loading import load_config

    try:
        loaded = load_config(conf, overrides, backbone)
    except AstunerError:
        return
    enter_venv(loaded.config.backbone, loaded.path.parent, loaded.config.plugins.disabled)


def enter_venv(backbone: str, config_dir: Path, disabled: Sequence[str] = ()) -> None:
    """Raise `EnterVenv` if a backbone has an environment that is ready and is not this one."""
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.venvs.entry import enter
    from astuner.settings.venvs.state import find_own_venv

    catalog = Catalog.discover(disabled, kinds=("backbone",))
    try:
        candidate = catalog.find("backbone", backbone, config_dir=config_dir, key="astuner.backbone")
        own = find_own_venv(candidate)
    except (AstunerError, PluginError):
        return
    if own is not None:
        enter(candidate.name, own, lambda text: click.echo(text, err=True))
