"""`astuner quickstart`."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click

EXAMPLE = """\b
Example:
  astuner quickstart my-agent"""


@click.command(epilog=EXAMPLE)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="The seed of the tasks, the model and the tuning."
)
@click.option("--no-run", is_flag=True, help="Write the project and its model without tuning it.")
def quickstart(directory: Path, seed: int, no_run: bool) -> int:
    """Write a small project into DIR, tune its tiny model, and show it before and after.

    Takes about two minutes on a CPU.
    """
    from astuner.runs.store.atomic import write_directory
    from astuner_local.quickstart.template import can_draw_charts, check_free, write_project

    check_free(directory)
    with write_directory(directory) as made:
        write_project(made, seed, charts=can_draw_charts())
        _make_model(made / "model", seed)
    if no_run:
        typed = shlex.quote(str(directory))
        click.echo(f"{directory} is ready. Go on with:\n  cd {typed}\n  astuner run --conf tune.yaml --backbone local")
        return 0
    return _tune(directory)


def _tune(directory: Path) -> int:
    from astuner.cli.run import RunRequest, start_run
    from astuner_local.quickstart.report import report

    click.echo(
        f"tuning, about one and a half minutes on a CPU: astuner run --conf tune.yaml --backbone local (in {directory})", err=True
    )
    # astuner makes the run directory where it is started: users start it in the project.
    with contextlib.chdir(directory):
        outcome = start_run(RunRequest(conf=Path("tune.yaml"), backbone="local"))
        run = outcome.directory.resolve().relative_to(Path.cwd())
    text = report(
        outcome.before_groups,
        outcome.after_groups,
        project=directory,
        run=directory / run,
        viewers=outcome.viewers,
        run_viewers=outcome.run_viewers,
    )
    click.echo(text)
    return outcome.exit_code


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
