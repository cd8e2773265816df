"""`astuner export`."""

from __future__ import annotations

from pathlib import Path

import click

from astuner.cli.output import as_json, print_json
from astuner_tools.exporting.request import DTYPES, FORMATS, ExportRequest

EXAMPLE = """\b
Examples:
  astuner export my-experiment --checkpoint best --out my-model
  astuner export my-experiment --format gguf --dtype q8_0 --out my-gguf
  astuner export my-experiment --format hf --out my-model --push OWNER/NAME"""


@click.command(epilog=EXAMPLE, short_help="Write a checkpoint for transformers, vLLM, llama.cpp or Ollama.")
@click.argument("run")
@click.option("--checkpoint", default="last", show_default=True, help="`best`, `last` or a step.")
@click.option("--adapter", metavar="TARGET", help="Which model, of a run with several (model.adapters).")
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    help="`hf`: a Hugging Face model, LoRA adapters merged into it. `gguf`: one file for llama.cpp and Ollama. `adapter`: the "
    "LoRA adapters alone. By default `adapter` for a run with adapters, and `hf` for others.",
)
@click.option("--merge-lora", is_flag=True, help="The same as --format hf.")
@click.option(
    "--dtype",
    type=click.Choice(DTYPES),
    help="Precision of the weights; without it that of the model that the run began with. q8_0 is for gguf.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A directory that does not exist or is empty.")
@click.option(
    "--base", metavar="OWNER/NAME", help="The base's name on the hub, for the model card, if model.path is a directory."
)
@click.option("--push", metavar="OWNER/NAME", help="Upload the result to this repository of the hub, with your own login.")
@click.option("--public", is_flag=True, help="With --push: a repository that everybody sees, instead of a private one.")
@as_json
def export(
    run: str,
    checkpoint: str,
    adapter: str | None,
    kind: str | None,
    merge_lora: bool,
    dtype: str | None,
    out: Path,
    base: str | None,
    push: str | None,
    public: bool,
    in_json: bool,
) -> None:
    """Write a checkpoint of RUN, or a directory of LoRA adapters, as a model that other programs load, with its model card.

    RUN is a run directory, or the name of one in launcher_record.
    """
    from astuner_tools.exporting.exporting import export_run

    request = ExportRequest(
        run=run,
        checkpoint=checkpoint,
        adapter=adapter,
        kind="hf" if merge_lora and kind is None else kind,
        merge_lora=merge_lora,
        dtype=dtype,
        out=out,
        base=base,
        push=push,
        public=public,
    )
    request.check()
    for line in (lines := [*export_run(request)]):
        click.echo(line, err=True)
    if in_json:
        print_json({"directory": out, "done": lines})
