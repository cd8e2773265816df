"""The commands of plugins that show a run."""

from __future__ import annotations

from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.compat import find_incompatibility
from astuner.settings.plugins.core_commands import CORE_COMMANDS, format_typed


def list_run_viewers(catalog: Catalog) -> list[str]:
    """Return those that can be used here, as they are typed before the directory of a run: `astuner NAME`."""
    commands = catalog.map_spellings("command", taken=CORE_COMMANDS)
    return [
        f"astuner {format_typed(spelling)}"
        for spelling, candidate in commands.items()
        if candidate.shows_runs and not candidate.missing and find_incompatibility(candidate) is None
    ]
