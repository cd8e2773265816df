"""`astuner config show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from astuner.cli.config_options import add_config_options
from astuner.cli.output import print_json


@click.command()
@add_config_options
def show(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool) -> None:
    """Print the whole configuration: defaults, file and --set, with interpolations resolved and secrets left out."""
    from astuner.config.loading import load_config
    from astuner.config.show import to_yaml

    text = to_yaml(load_config(conf, overrides, backbone))
    if in_json:
        import yaml  # type: ignore[import-untyped,unused-ignore]  # its stubs are a distribution of their own

        print_json(yaml.safe_load(text))
    else:
        click.echo(text, nl=False)
