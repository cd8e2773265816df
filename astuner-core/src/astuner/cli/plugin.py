"""`astuner plugin`: what is installed, what one component is, whether it is right, and how to begin one."""

from __future__ import annotations

from astuner.cli.lazy import LazySubcommands

plugin = LazySubcommands(
    name="plugin",
    help="List, show, check and begin plugins.",
    subcommands={
        "list": ("astuner.cli.plugin_list:list_", "List every component that is installed; imports none."),
        "show": ("astuner.cli.plugin_show:show", "Show one component: origin, needs, options."),
        "check": ("astuner.cli.plugin_check:check", "Check an installed distribution against the contracts."),
        "new": ("astuner.cli.plugin_new:new", "Write a small, living package to begin a plugin with."),
    },
)
