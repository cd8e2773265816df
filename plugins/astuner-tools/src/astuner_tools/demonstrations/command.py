"""`astuner warm-start`."""

from __future__ import annotations

from pathlib import Path

import click

from astuner.cli.options import add_config_options
from astuner.cli.own_venv import enter_venv_of
from astuner_tools.demonstrations.request import (
    ADAPTER_LR,
    BATCH_SIZE,
    EPOCHS,
    TINY_LR,
    TINY_STEPS,
    WHOLE_LR,
    WarmStartRequest,
)

EXAMPLE = """\b
Examples:
  astuner warm-start --conf tune.yaml --demos demos.jsonl --out model --tiny
  astuner warm-start --conf tune.yaml --demos demos.jsonl --out model --epochs 2 --lr 2e-5"""


@click.command(name="warm-start", epilog=EXAMPLE)
@add_config_options
@click.option(
    "--demos",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Conversations, one JSON object per line: `messages` in OpenAI's form, and `tools` where tools are called.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A directory that does not exist or is empty.")
@click.option("--tiny", is_flag=True, help="Begin with a new tiny model, made for this task, instead of model.path.")
@click.option(
    "--holdout",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of the demonstrations that is measured, but not trained.",
)
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    help=f"Passes over the demonstrations; {EPOCHS} by default, with --tiny as many as make {TINY_STEPS} steps.",
)
@click.option(
    "--lr",
    type=click.FloatRange(0, min_open=True),
    help=f"Highest learning rate; {WHOLE_LR:g} by default, {ADAPTER_LR:g} for LoRA adapters, {TINY_LR:g} with --tiny.",
)
@click.option(
    "--batch-size", default=BATCH_SIZE, show_default=True, type=click.IntRange(min=1), help="Most rows of an optimizer step."
)
def warm_start(
    conf: Path,
    backbone: str | None,
    overrides: tuple[str, ...],
    demos: Path,
    out: Path,
    tiny: bool,
    holdout: float,
    epochs: int | None,
    lr: float | None,
    batch_size: int,
) -> None:
    """Train the model on demonstrations, before reinforcement learning."""
    from astuner.runs.driver.control import unwind_on_sigterm
    from astuner_tools.demonstrations.warm_start import warm_start as start

    enter_venv_of(conf, overrides, backbone)
    request = WarmStartRequest(
        conf=conf,
        demos=demos,
        out=out,
        overrides=overrides,
        backbone=backbone,
        tiny=tiny,
        holdout=holdout,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
    )
    with unwind_on_sigterm():
        report = start(request, lambda line: click.echo(line, err=True))
    click.echo("\n".join(report.format_lines()))
