"""The commands of core: the name, the place and the line of the help of each."""

from __future__ import annotations

from collections.abc import Mapping

CORE_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("astuner.cli.run:run", "Train the model behind an agent."),
    "plugin": ("astuner.cli.plugin:plugin", "List, show, check and create plugins."),
    "plugin.list": ("astuner.cli.plugin:list_", "List every installed component, and what it lacks."),
    "config": ("astuner.cli.config:config", "Check, show and explain a configuration."),
    "config.validate": ("astuner.cli.config:validate", "Check every key and component without starting anything."),
}
"""Target and help text by name; `config.validate` is `validate` in the group `config`."""


def select_group(group: str) -> dict[str, tuple[str, str]]:
    """Return the commands of a group by their own names; those of the top level for an empty name."""
    parts = {name: name.rpartition(".") for name in CORE_COMMANDS}
    return {own: CORE_COMMANDS[name] for name, (above, _, own) in parts.items() if above == group}


def find_lost_group(name: str) -> str | None:
    """Return the group of a command, if core has no such group; None for a name that can be typed."""
    group = name.rpartition(".")[0]
    return group if group and not select_group(group) else None


def format_typed(name: str) -> str:
    """Return what a user types: `plugin polish` for `plugin.polish`, `plugin acme/polish` for `acme/plugin.polish`."""
    dist, slash, rest = name.rpartition("/")
    group, dot, own = rest.rpartition(".")
    return f"{group} {dist}{slash}{own}" if dot else name
