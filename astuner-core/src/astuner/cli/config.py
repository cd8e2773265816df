"""`astuner config`: whether a configuration is right, what it amounts to, and where each value comes from."""

from __future__ import annotations

from astuner.cli.lazy import LazySubcommands

config = LazySubcommands(
    name="config",
    help="Check, show and explain a configuration.",
    subcommands={
        "validate": ("astuner.cli.config_validate:validate", "Check every key and component; nothing is started."),
        "show": ("astuner.cli.config_show:show", "Print the whole configuration, resolved, without secrets."),
        "explain": ("astuner.cli.config_explain:explain", "Say where each value comes from and who acts on it."),
        "schema": ("astuner.cli.config_schema:schema", "Print the JSON Schema of the YAML, for editors."),
    },
)
