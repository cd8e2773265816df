"""`astuner export`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from astuner.cli.own_venv import enter_venv
from astuner.contract.errors import UsageError

EXAMPLE = """\b
Examples:
  astuner export my-experiment --checkpoint best --out my-model
  astuner export my-adapters --merge-lora --out my-model"""


@click.command(epilog=EXAMPLE)
@click.argument("run")
@click.option("--checkpoint", default="last", show_default=True, help="`best`, `last` or a step.")
@click.option("--merge-lora", is_flag=True, help="Merge LoRA adapters into the weights instead of writing them separately.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="Precision of the weights; without it that of the model that the run began with.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A directory that does not exist or is empty.")
def export(run: str, checkpoint: str, merge_lora: bool, dtype: str | None, out: Path) -> None:
    """Write a checkpoint of RUN, or a directory of LoRA adapters, as a Hugging Face model that other tools load.

    RUN is a run directory, or the name of one in launcher_record.
    """
    from typing import cast

    from astuner.contract.protocols import Backbone
    from astuner.runs.inspection.run_search import open_run
    from astuner.runs.store.atomic import check_free, write_directory
    from astuner.runs.store.checkpoints import check_intact, find_better_step, find_checkpoint
    from astuner.runs.store.directory import RunDirectory
    from astuner.runs.training.export import export_model
    from astuner.settings.config.adapters import ADAPTER_FILE
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.drivers import construct, load

    check_free(out)
    if os.path.isfile(Path(run) / ADAPTER_FILE):
        check_intact(Path(run))
        with write_directory(out) as made:
            export_model(Path(run), made, merge_lora=merge_lora, dtype=dtype)
        click.echo(f"exported {run} to {out}", err=True)
        return
    directory = RunDirectory(open_run(run).path)
    name = directory.run.get("backbone")
    if name is None:
        raise UsageError(f"{directory.path}: its run.json does not name a backbone, so nothing is known of its checkpoints")
    enter_venv(name, Path.cwd())
    candidate = Catalog.discover().find("backbone", name, config_dir=Path.cwd(), key="backbone")
    chosen = find_checkpoint(directory, checkpoint)
    check_intact(chosen, [directory.checkpoint(step) for step in directory.list_saved_steps()])
    backbone = cast("Backbone", construct(candidate, load(candidate), None, None))
    with write_directory(out) as made:
        backbone.export(chosen, made, merge_lora=merge_lora, dtype=dtype)
    better = find_better_step(directory) if checkpoint == "last" else None
    hint = f"; the validation of step {better} was better: --checkpoint best exports that one" if better else ""
    click.echo(f"exported {chosen} to {out}{hint}", err=True)
