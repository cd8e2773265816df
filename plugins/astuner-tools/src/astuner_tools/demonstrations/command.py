"""`astuner warm-start`."""

from __future__ import annotations

from pathlib import Path

import click

from astuner.cli.options import add_config_options
from astuner.cli.output import print_json
from astuner.cli.own_venv import enter_venv_of
from astuner.contract.errors import UsageError
from astuner_tools.demonstrations.played import EpisodeChoice
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
  astuner warm-start --conf tune.yaml --demos demos.jsonl --out model --epochs 2 --lr 2e-5
  astuner warm-start --conf tune.yaml --from-run tune.debug --min-reward 1 --out model"""


@click.command(name="warm-start", epilog=EXAMPLE)
@add_config_options
@click.option(
    "--demos",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Conversations, one JSON object per line: `messages` in OpenAI's form, and `tools` where tools are called.",
)
@click.option("--from-run", metavar="RUN", help="Learn from the training episodes of a run instead, those of --min-reward.")
@click.option("--min-reward", metavar="R", type=float, help="With --from-run: the least reward of an episode.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A directory that does not exist or is empty.")
@click.option("--tiny", is_flag=True, help="Begin with a new tiny model, made for this task, instead of model.path.")
@click.option(
    "--validate-before",
    is_flag=True,
    help="With --tiny: play the validation tasks also with its first, random weights, which takes each answer to its limit.",
)
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
    in_json: bool,
    demos: Path | None,
    from_run: str | None,
    min_reward: float | None,
    out: Path,
    tiny: bool,
    validate_before: bool,
    holdout: float,
    epochs: int | None,
    lr: float | None,
    batch_size: int,
) -> None:
    """Train the model on demonstrations, before reinforcement learning.

    They are those of a file (--demos), or played episodes: --from-run RUN --min-reward 1 learns from those that earned it.
    """
    from astuner.runs.driver.control import unwind_on_sigterm
    from astuner_tools.demonstrations.warm_start import warm_start as start

    enter_venv_of(conf, overrides, backbone)
    request = WarmStartRequest(
        conf=conf,
        demos=demos,
        episodes=_choose_episodes(demos, from_run, min_reward),
        out=out,
        overrides=overrides,
        backbone=backbone,
        tiny=tiny,
        validate_before=validate_before,
        holdout=holdout,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
    )
    with unwind_on_sigterm():
        report = start(request, lambda line: click.echo(line, err=True))
    print_json(report.to_json()) if in_json else click.echo("\n".join(report.format_lines()))


def _choose_episodes(demos: Path | None, run: str | None, min_reward: float | None) -> EpisodeChoice | None:
    if (demos is None) == (run is None):
        raise UsageError("name the demonstrations: --demos FILE, or --from-run RUN --min-reward R for played episodes")
    if (run is None) != (min_reward is None):
        raise UsageError(
            "--from-run and --min-reward belong together: which run, and the least reward of an episode to learn from"
        )
    return None if run is None or min_reward is None else EpisodeChoice(run=run, min_reward=min_reward)
