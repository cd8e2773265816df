"""`astuner config show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from astuner.cli.options import add_config_options, as_json
from astuner.cli.output import print_json

EXAMPLE = """\b
Example:
  astuner config show --conf tune.yaml --set rollout.num_repeat=16"""


@click.command(epilog=EXAMPLE)
@add_config_options
@as_json
def show(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool) -> None:
    """Print the whole configuration: defaults, file and --set, with interpolations resolved and secrets left out."""
    from astuner.settings.config.loading import load_config
    from astuner.settings.config.show import to_yaml

    text = to_yaml(load_config(conf, overrides, backbone))
    if in_json:
        import yaml  # type: ignore[import-untyped,unused-ignore]  # its stubs are a separate distribution

        print_json(yaml.safe_load(text))
    else:
        click.echo(text, nl=False)
