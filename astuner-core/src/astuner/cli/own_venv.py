"""Continuing a command in the virtual environment of its backbone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from astuner.contract.protocols import OwnVenv


def enter_venv_of(conf: Path, overrides: Sequence[str], backbone: str | None) -> None:
    """Raise `EnterVenv` if the backbone of a configuration has an environment that is ready and is not this one."""
    from astuner.settings.planning.own_venv import find_venv_of

    _enter(find_venv_of(conf, overrides, backbone))


def enter_venv(backbone: str, config_dir: Path) -> None:
    """Raise `EnterVenv` if a backbone has an environment that is ready and is not this one."""
    from astuner.settings.planning.own_venv import find_venv

    _enter(find_venv(backbone, config_dir))


def _enter(found: tuple[str, OwnVenv] | None) -> None:
    if found is not None:
        from astuner.settings.venvs.entry import enter

        enter(*found, lambda text: click.echo(text, err=True))
