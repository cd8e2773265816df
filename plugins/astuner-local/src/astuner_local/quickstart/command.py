"""`astuner quickstart`."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click

EXAMPLE = """\b
Examples:
  astuner quickstart my-agent
  astuner quickstart my-shop --model smollm2-135m"""

CALCULATOR = "Validation, greedy, on operands that no training question has:"
SHOP = "Validation, sampled as in training, on things that no training question has:"


@click.command(epilog=EXAMPLE)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="The seed of the tasks, the model and the tuning."
)
@click.option("--no-run", is_flag=True, help="Write the project and its model without tuning it.")
@click.option(
    "--model",
    metavar="NAME",
    help="Tune a pretrained model instead, such as smollm2-135m; it is fetched if `astuner model fetch` has not done so.",
)
def quickstart(directory: Path, seed: int, no_run: bool, model: str | None) -> int:
    """Write a small project into DIR, tune its model, and show it before and after.

    Takes about two minutes on a CPU, with a model of 0.2 million parameters made here. A pretrained one (--model) takes about
    four minutes, and 7 GB of memory.
    """
    from astuner.runs.store.atomic import write_directory
    from astuner_local.quickstart.template import can_draw_charts, check_free, write_project, write_shop

    check_free(directory)
    path = None if model is None else _fetch_model(model)
    with write_directory(directory) as made:
        if path is not None:
            write_shop(made, seed, path, charts=can_draw_charts())
        else:
            write_project(made, seed, charts=can_draw_charts())
            _make_model(made / "model", seed)
    if no_run:
        typed = shlex.quote(str(directory))
        click.echo(f"{directory} is ready. Go on with:\n  cd {typed}\n  astuner run --conf tune.yaml --backbone local")
        return 0
    if model is not None:
        return _tune(directory, title=SHOP, step=4, takes="about three minutes on two cores")
    return _tune(directory, title=CALCULATOR, step=20, takes="about one and a half minutes on a CPU")


def _tune(directory: Path, *, title: str, step: int, takes: str) -> int:
    from astuner.cli.run import RunRequest, start_run
    from astuner_local.quickstart.report import report

    click.echo(f"tuning, {takes}: astuner run --conf tune.yaml --backbone local (in {directory})", err=True)
    # astuner makes the run directory where it is started: users start it in the project.
    with contextlib.chdir(directory):
        outcome = start_run(RunRequest(conf=Path("tune.yaml"), backbone="local"))
        run = outcome.directory.resolve().relative_to(Path.cwd())
    text = report(
        outcome.before_groups,
        outcome.after_groups,
        title=title,
        step=step,
        project=directory,
        run=directory / run,
        viewers=outcome.viewers,
        run_viewers=outcome.run_viewers,
    )
    click.echo(text)
    return outcome.exit_code


def _fetch_model(name: str) -> str:
    """Return the folder of a pretrained model as a YAML can have it."""
    from astuner_local.pretrained.fetching import fetch_model, find_known_model, shorten_home

    known = find_known_model(name)
    found = fetch_model(name, say=lambda line: click.echo(line, err=True))
    click.echo(f"{known.title}, licence {known.licence}: {found.directory}", err=True)
    return shorten_home(found.directory.resolve())


def _make_model(directory: Path, seed: int) -> None:
    click.echo(
        "making a model of 0.2 million parameters for this project's calculator alone, and showing it careless "
        "demonstrations: about a minute of a CPU's time, longer where other programs use it",
        err=True,
    )
    with _progress_bar("tiny model") as progress:
        # The bar is shown while torch is imported.
        from astuner_local.tiny.maker import make_tiny_model

        make_tiny_model(directory, seed=seed, progress=progress)


@contextlib.contextmanager
def _progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr while the block runs, if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    steps = TextColumn("{task.completed} of at most {task.total} steps")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        steps,
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
