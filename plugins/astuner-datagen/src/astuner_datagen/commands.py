"""`astuner data`: making, looking at and counting tasks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from astuner.cli.output import as_json, print_json

if TYPE_CHECKING:
    from astuner.contract.schema import Split
    from astuner_datagen.generator import Generator

F = TypeVar("F", bound=Callable[..., Any])


def _add_config_options(command: F) -> F:
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        as_json,
        click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Override one key of the YAML; repeatable."),
        click.option("--conf", type=file, required=True, help="The YAML of the run."),
    ):
        command = option(command)
    return command


@click.group()
def data() -> None:
    """Generate, preview and count tasks."""


GENERATE_EXAMPLE = """\b
Examples:
  astuner data generate --conf tune.yaml --dry-run
  astuner data generate --conf tune.yaml --out tasks"""


@data.command(epilog=GENERATE_EXAMPLE)
@_add_config_options
@click.option(
    "--split", type=click.Choice(["train", "validation", "all"]), default="all", help="Which tasks to make; all by default."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write train.jsonl and validation.jsonl to this directory.",
)
@click.option("--dry-run", is_flag=True, help="Show how many requests it takes and what they may cost, without sending any.")
def generate(conf: Path, overrides: Sequence[str], in_json: bool, split: str, out: Path | None, dry_run: bool) -> None:
    """Make tasks with an LLM.

    The YAML configures the reader data_generation. A command that was interrupted continues where it stopped. Validation tasks
    are made first, so that no training task repeats one.
    """
    from astuner.contract.errors import Interrupted

    generator = _make_generator(conf, overrides)
    splits = [name for name in _parse_splits(split) if generator.count_wanted(name)]
    if dry_run:
        _estimate(generator, splits, in_json)
        return
    try:
        reports = {name: _generate_split(generator, name) for name in splits}
    except KeyboardInterrupt:
        raise Interrupted("stopped; the answers so far are kept, and the same command continues from here") from None
    if out is not None:
        _copy(generator, splits, out)
    if in_json:
        files = {name: {**report, "file": generator.locate_saved(name).tasks_file} for name, report in reports.items()}
        print_json(files)


PREVIEW_EXAMPLE = """\b
Example:
  astuner data preview --conf tune.yaml --split validation -n 3"""


@data.command(epilog=PREVIEW_EXAMPLE)
@_add_config_options
@click.option(
    "--split", type=click.Choice(["train", "validation"]), default="train", help="Which tasks to show; train by default."
)
@click.option("-n", "--count", type=click.IntRange(min=1), default=5, help="How many tasks to show; 5 by default.")
def preview(conf: Path, overrides: Sequence[str], in_json: bool, split: Split, count: int) -> None:
    """Show the first tasks of any reader."""
    from astuner_datagen.configured_reader import check_generated, make_configured_reader
    from astuner_datagen.preview import as_row, as_table

    reader = make_configured_reader(conf, overrides)
    check_generated(reader, split)
    tasks = list(islice(reader.read(split), count))
    if in_json:
        print_json([as_row(task) for task in tasks])
    elif tasks:
        click.echo(as_table(tasks, shutil.get_terminal_size((120, 24)).columns))
    else:
        click.echo(f"no {split} tasks", err=True)


STATS_EXAMPLE = """\b
Example:
  astuner data stats --conf tune.yaml"""


@data.command(epilog=STATS_EXAMPLE)
@_add_config_options
def stats(conf: Path, overrides: Sequence[str], in_json: bool) -> None:
    """Count the tasks of any reader.

    Shows their lengths, answers, and duplicates within and between the splits.
    """
    from astuner_datagen.configured_reader import SPLITS, check_generated, make_configured_reader
    from astuner_datagen.preview import format_columns
    from astuner_datagen.stats import SplitStats, count_shared

    reader = make_configured_reader(conf, overrides)
    for split in SPLITS:
        check_generated(reader, split)
    found = {split: SplitStats.of(reader.read(split)) for split in SPLITS}
    document = {
        "splits": {split: one.as_json() for split, one in found.items()},
        "shared_queries": count_shared(found["train"], found["validation"]),
    }
    if in_json:
        print_json(document)
        return
    rows = [("queries in both splits", str(document["shared_queries"]))]
    for split, one in found.items():
        rows += [(f"{split} {name.replace('_', ' ')}", _format_value(value)) for name, value in one.as_json().items()]
    click.echo(format_columns(rows))


def _make_generator(conf: Path, overrides: Sequence[str]) -> Generator:
    from astuner.contract.errors import UsageError
    from astuner_datagen.configured_reader import make_configured_reader

    reader = make_configured_reader(conf, overrides)
    found: Generator | None = getattr(reader, "generator", None)
    if found is None:
        raise UsageError(f"{conf}: astuner.task_reader.type names another reader; tasks are generated by 'data_generation'")
    return found


def _parse_splits(given: str) -> list[Split]:
    from astuner_datagen.configured_reader import SPLITS

    # Validation first: training must not repeat it.
    return [name for name in reversed(SPLITS) if given in (name, "all")]


def _generate_split(generator: Generator, split: Split) -> Mapping[str, Any]:
    from astuner_datagen.report import describe_report

    made = generator.make(split)
    for report in made:
        for line in describe_report(report):
            click.echo(line, err=True)
    found = generator.report(split)
    if found is None:
        raise AssertionError("what was made is there")
    if not made:
        click.echo(f"{split}: {found['tasks']} tasks exist already", err=True)
    return found


def _copy(generator: Generator, splits: Sequence[Split], out: Path) -> None:
    from astuner_datagen.task_files import write_atomically

    for split in splits:
        path = out / f"{split}.jsonl"
        write_atomically(path, generator.locate_saved(split).tasks_file.read_text(encoding="utf-8"))
        click.echo(f"wrote {path}", err=True)


def _estimate(generator: Generator, splits: Sequence[Split], in_json: bool) -> None:
    from astuner_datagen.estimate import estimate, list_bounds
    from astuner_datagen.preview import format_columns

    found = [estimate(generator, split) for split in splits]
    if in_json:
        print_json({one.split: list_bounds(one) for one in found})
        return
    for one in found:
        report = generator.report(one.split)
        already = f", of which {report['tasks']} exist already" if report else ""
        priced = f"at most {one.most_cost:g}" if one.most_cost else "unknown: set llm.prompt_price and llm.completion_price"
        rows = [
            (f"{one.split} tasks", f"{one.tasks}{already}"),
            ("requests", f"at least {one.requests}; more in place of questions that are dropped"),
            *([("to verify", f"at most {one.verifying} requests more")] if one.verifying else []),
            ("prompt tokens", f"about {one.prompt_tokens:,}"),
            ("answer tokens", f"at most {one.most_answer_tokens:,}"),
            ("cost", priced),
        ]
        click.echo(format_columns(rows))


def _format_value(value: Any) -> str:
    return ", ".join(f"{name} {one}" for name, one in value.items()) or "none" if isinstance(value, Mapping) else str(value)
