"""The commands that distributions offer. Imports `importlib.metadata` alone: `astuner --help` needs no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import NamedTuple

from astuner.settings.plugins.core_commands import select_group

GROUP = "astuner.commands"


class CommandEntry(NamedTuple):
    """A command as its distribution declares it. A tuple, since attrs would take a quarter of the time of `--help`."""

    name: str
    """Without the group."""
    dist: str
    version: str
    target: str


def map_commands(group: str) -> Mapping[str, CommandEntry]:
    """Return the commands that distributions add to a group of core, by what a user types after it.

    That is `dist/name` where two offer one name, or core has it. The group of the top level is the empty name.
    """
    found = []
    for entry in entry_points(group=GROUP):
        above, _, name = entry.name.rpartition(".")
        if above == group and entry.dist is not None:
            found.append(CommandEntry(name, entry.dist.name, entry.dist.version, entry.value.partition("[")[0].strip()))
    counts = Counter([*select_group(group), *(entry.name for entry in found)])
    return {each.name if counts[each.name] == 1 else f"{each.dist}/{each.name}": each for each in sorted(found)}
