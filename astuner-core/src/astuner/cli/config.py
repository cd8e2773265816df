"""`astuner config`: whether a configuration is valid, what it resolves to, and where each value comes from."""

from __future__ import annotations

from astuner.cli.lazy import LazySubcommands

config = LazySubcommands(
    name="config",
    help="Check, show and explain a configuration.",
    subcommands={
        "validate": ("astuner.cli.config_validate:validate", "Check every key and component without starting anything."),
        "show": ("astuner.cli.config_show:show", "Print the whole configuration, resolved, without secrets."),
        "explain": ("astuner.cli.config_explain:explain", "Show where each value comes from and what acts on it."),
        "schema": ("astuner.cli.config_schema:schema", "Print the JSON Schema of the YAML, for editors."),
    },
)
