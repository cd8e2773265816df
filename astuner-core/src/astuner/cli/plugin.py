"""`astuner plugin`: list, show, check and create plugins."""

from __future__ import annotations

from astuner.cli.lazy import LazySubcommands

plugin = LazySubcommands(
    name="plugin",
    help="List, show, check and create plugins.",
    subcommands={
        "list": ("astuner.cli.plugin_list:list_", "List every installed component, without importing any."),
        "show": ("astuner.cli.plugin_show:show", "Show one component: origin, needs, options."),
        "check": ("astuner.testing.check_command:check", "Check an installed distribution against the contracts."),
        "new": ("astuner.cli.plugin_new:new", "Create a small working package to start a plugin from."),
    },
)
