"""`astuner config show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from astuner.cli.options import add_config_options
from astuner.cli.output import print_json
from astuner.contract.errors import SeveralStages

EXAMPLE = """\b
Example:
  astuner config show --conf tune.yaml --set rollout.num_repeat=16"""


@click.command(epilog=EXAMPLE)
@add_config_options
def show(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool) -> None:
    """Print the whole configuration: defaults, file and --set, with interpolations resolved and secrets left out."""
    from astuner.settings.config.loading import load_config
    from astuner.settings.config.show import to_yaml
    from astuner_tools.stages.planned_stage import plan_stages

    try:
        texts = {"": to_yaml(load_config(conf, overrides, backbone))}
    except SeveralStages as found:
        stages = plan_stages(found, conf, overrides, backbone)
        # The model that one ends with is not there yet.
        texts = {one.name: to_yaml(load_config(conf, one.overrides, backbone, unused=("model.path",))) for one in stages}
    if in_json:
        import yaml  # type: ignore[import-untyped,unused-ignore]  # its stubs are a separate distribution

        shown = {name: yaml.safe_load(text) for name, text in texts.items()}
        print_json(shown.get("", {"stages": shown}))
    else:
        click.echo("---\n".join(f"# stage {name}\n{text}" if name else text for name, text in texts.items()), nl=False)
