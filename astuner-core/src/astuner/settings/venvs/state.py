"""Whether a backbone runs here, in an environment of its own that is ready, or not yet."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal

from attrs import frozen

from astuner.contract.errors import PluginError, UsageError
from astuner.contract.protocols import BackboneTraits, Candidate, OwnVenv
from astuner.contract.protocols.traits import read_traits
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner.settings.venvs.record import SetupRecord, read_record
from astuner.settings.venvs.request import SetupRequest, plan_setup
from astuner.shared.install_hints import is_installed

PLACE = "ASTUNER_VENVS"
"""The directory with an environment for each backbone; by default `astuner` in the user's environment."""


@frozen(kw_only=True)
class VenvState:
    """The state of a backbone's environment."""

    backbone: str
    status: Literal["in place", "ready", "missing", "outdated", "unsupported"]
    directory: Path
    reason: str = ""
    """Why it cannot be used; of one that is ready, how it differs from the user's environment."""
    command: str = ""
    """What makes it, or makes it again."""

    @property
    def is_usable(self) -> bool:
        """Whether the backbone can run."""
        return self.status in ("in place", "ready")

    def describe(self) -> str:
        """Say what is wrong, and the command."""
        remedy = f": {self.command}" if self.command else ""
        return f"the backbone '{self.backbone}' has its own virtual environment, {self.reason}{remedy}"


def find_own_venv(candidate: Candidate) -> OwnVenv | None:
    """Return what the environment of a backbone is made of; None if it uses that of the user. Imports its class."""
    return read_traits(load(candidate), BackboneTraits).own_venv


def list_states(catalog: Catalog) -> tuple[VenvState, ...]:
    """Return the states of all installed backbones with an environment of their own; broken plugins are left out."""
    found = []
    for candidate in catalog.candidates("backbone"):
        with suppress(PluginError):
            if (own := find_own_venv(candidate)) is not None:
                found.append(examine_venv(candidate.name, own))
    return tuple(found)


def find_directory(backbone: str) -> Path:
    """Return where the environment of a backbone is, or would be."""
    root = os.environ.get(PLACE)
    return (Path(root) if root else Path(sys.prefix, "astuner")) / backbone


def find_system_problem(own: OwnVenv) -> str | None:
    """Return why the libraries cannot be installed on this machine; None if they can."""
    here = (sys.platform, platform.machine())
    if not own.systems or here in own.systems:
        return None
    return f"whose libraries exist for {' and '.join(map(' '.join, own.systems))} alone; this is {' '.join(here)}"


def examine_venv(backbone: str, own: OwnVenv) -> VenvState:
    """Return the state of a backbone's environment. Reads metadata only."""
    directory = find_directory(backbone)
    if is_installed(own.in_place_with):
        return VenvState(backbone=backbone, status="in place", directory=Path(sys.prefix))
    if (problem := find_system_problem(own)) is not None:
        return VenvState(backbone=backbone, status="unsupported", directory=directory, reason=problem)
    record = read_record(directory)
    if record is None:
        command = SetupRequest().format_command(backbone)
        return VenvState(
            backbone=backbone, status="missing", directory=directory, reason="which is not set up yet", command=command
        )
    command = record.request.format_command(backbone)
    status, reason = _compare(backbone, own, record)
    return VenvState(backbone=backbone, status=status, directory=directory, reason=reason, command=command)


def format_python() -> str:
    """Return this Python's major and minor version."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _compare(backbone: str, own: OwnVenv, record: SetupRecord) -> tuple[Literal["ready", "outdated"], str]:
    """Return whether an environment can be used, and what has changed since it was made.

    The code of astuner has to be the same in both environments; other packages may differ.
    """
    if record.prefix != sys.prefix:
        return "outdated", f"which was made for {record.prefix}, and this is {sys.prefix}"
    if record.python != format_python():
        return "outdated", f"which has Python {record.python}, and this is {format_python()}"
    try:
        plan = plan_setup(backbone, own, record.request, record.left_out)
        digest = plan.digest
    except (UsageError, OSError) as error:
        return "outdated", f"which can no longer be made as it was: {error}"
    if digest != record.digest:
        return "outdated", "which was made from other requirements"
    if plan.ours != record.ours:
        return "outdated", f"which has other packages of astuner ({', '.join(sorted({*plan.ours} ^ {*record.ours}))})"
    new, gone = sorted({*plan.others} - {*record.others}), sorted({*record.others} - {*plan.others})
    parts = [f"{word} {', '.join(names)}" for word, names in (("lacks", new), ("still has", gone)) if names]
    return "ready", " and ".join(parts)
