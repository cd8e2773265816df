"""`astuner quickstart`: a small project, a tiny model, a run, and what came of it."""

from __future__ import annotations

import os
import shutil
from importlib import resources
from pathlib import Path

import click

from astuner.errors import UsageError

PROJECT = "project"
"""The folder of this package that is copied."""


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--seed", default=0, show_default=True, help="Of the tasks, the tiny model and the run.")
@click.option("--no-run", is_flag=True, help="Everything but the tuning.")
def quickstart(directory: Path, seed: int, no_run: bool) -> None:
    """Write a small project into DIRECTORY, make its tiny model, and tune it: two minutes on a laptop CPU."""
    write_project(directory, seed)
    _make_model(directory / "model", seed)
    if no_run:
        click.echo(f"ready: cd {directory} && astuner run --conf tune.yaml --backbone local", err=True)
        return
    from astuner.cli.run import start_run
    from astuner_local.quickstart.report import report

    # As a user would: relative paths and the run directory start in the project.
    os.chdir(directory)
    outcome = start_run(Path("tune.yaml"), "local")
    click.echo(report(outcome, directory))


def write_project(directory: Path, seed: int) -> None:
    """Write everything but the model; raises `UsageError`, and writes nothing, when something is in the way."""
    from astuner_local.quickstart.tasks import write_tasks

    if directory.exists() and (there := next(directory.iterdir(), None)) is not None:
        raise UsageError(f"{directory}: holds {there.name} already; name a directory that is empty or does not exist")
    directory.mkdir(parents=True, exist_ok=True)
    with resources.as_file(resources.files(__package__).joinpath(PROJECT)) as template:
        shutil.copytree(template, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    config = directory / "tune.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("  seed: 0\n", f"  seed: {seed}\n"), encoding="utf-8")
    write_tasks(directory / "tasks", seed)


def _make_model(directory: Path, seed: int) -> None:
    from rich.console import Console
    from rich.progress import Progress
    from transformers.utils.logging import disable_progress_bar

    from astuner_local.tiny.maker import make_tiny_model

    disable_progress_bar()  # type: ignore[no-untyped-call]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("warm-starting a tiny model", total=None)
        make_tiny_model(directory, seed=seed, progress=lambda done, total: progress.update(bar, completed=done, total=total))
