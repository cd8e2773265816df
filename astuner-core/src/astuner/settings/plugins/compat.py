"""Whether a plugin was made for this version of core: reported when listing, refused when loading."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from astuner.contract.errors import PluginError
from astuner.contract.protocols import Candidate
from astuner.shared.install_hints import install_command
from astuner.shared.known_packages import CORE


def find_incompatibility(candidate: Candidate) -> str | None:
    """Return why this core does not suit the plugin, or None. A plugin without a range is accepted."""
    if candidate.core_requirement is None:
        return None
    running = _read_running_version()
    try:
        suits = SpecifierSet(candidate.core_requirement).contains(running, prereleases=True)
    except InvalidSpecifier:
        return f"its requirement {CORE}{candidate.core_requirement} cannot be read"
    return None if suits else f"it needs {CORE}{candidate.core_requirement}, and {CORE} {running} is installed"


def require_compatible(candidate: Candidate) -> None:
    """Raise `PluginError` with the blame and the remedy when this core is outside the plugin's range."""
    reason = find_incompatibility(candidate)
    if reason is None:
        return
    newer = install_command(f"{candidate.dist}")
    raise PluginError(
        f"{candidate.blame}: {reason}. Upgrade the plugin ({newer.replace('install', 'install --upgrade', 1)}) "
        f"or install the core it was made for ({install_command(f'{CORE}{candidate.core_requirement}')})"
    )


@cache
def _read_running_version() -> str:
    # Core does not change under a running process, and reading its metadata takes a millisecond for each plugin of a list.
    return version(CORE)
