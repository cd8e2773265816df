"""Draws `images/quickstart.svg`: the terminal at the end of `astuner quickstart my-agent`, from a real run of it.

`python docs/draw_quickstart.py` runs the command first, which takes two minutes. `python docs/draw_quickstart.py my-agent` draws
a project that the command has already tuned. Tables and texts come from the code that prints them; the picture leaves out
what is above them and below the first episode, and shows fewer steps than a terminal does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from io import StringIO
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.text import Text

from astuner.contract.schema import Group
from astuner.episodes.builtin.loggers.step_figures import thin_rows
from astuner.episodes.builtin.loggers.step_table import build_step_table
from astuner.runs.inspection.run import Run
from astuner_local.quickstart.command import CALCULATOR
from astuner_local.quickstart.report import report

HERE = Path(__file__).parent
PROJECT = "my-agent"
TITLE = "quickstart/calculator on local"
"""What the console calls the run."""
WIDTH = 80
MOST_ROWS = 14
PARAGRAPHS = 2
"""Of the report: the numbers, and the first episode."""


def main() -> None:
    """Draw a project, or make one and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", nargs="?", type=Path, help="a directory in which `astuner quickstart` has run")
    parser.add_argument("--out", type=Path, default=HERE / "images" / "quickstart.svg")
    arguments = parser.parse_args()
    if arguments.project is not None:
        arguments.out.write_text(draw(arguments.project), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as home:
        subprocess.run([sys.executable, "-m", "astuner", "quickstart", PROJECT], cwd=home, check=True)
        arguments.out.write_text(draw(Path(home) / PROJECT), encoding="utf-8")


def draw(project: Path) -> str:
    """Return the picture."""
    run = Run(project / "launcher_record" / "calculator")
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ astuner quickstart {PROJECT}", style="bold green"))
    rows = [(row["step"], {name: row[name] for name in row if name not in ("step", "kind")}) for row in run.read_rows()]
    console.print(build_step_table(TITLE, rows, thin_rows(rows, MOST_ROWS)))
    console.print(Text("\n\n".join(write_report(run).split("\n\n")[:PARAGRAPHS])))
    template = (HERE / "sources" / "terminal.svg").read_text(encoding="utf-8")
    return console.export_svg(title="The end of the quickstart", code_format=template, unique_id="quickstart")


def write_report(run: Run) -> str:
    """Return what the quickstart prints at its end."""
    groups = read_validations(run)
    first, last = groups[0].step, groups[-1].step
    return report(
        [group for group in groups if group.step == first],
        [group for group in groups if group.step == last],
        title=CALCULATOR,
        step=20,
        project=Path(PROJECT),
        run=Path(PROJECT, "launcher_record", "calculator"),
    )


def read_validations(run: Run) -> Sequence[Group]:
    """Return the stored groups of all validations by step, and in the order of the tasks, as the run itself has them."""
    # They are stored in the order in which they finished.
    episodes = sorted(run.episodes(split="validation"), key=lambda episode: (episode.step, episode.task.task_id))
    return [
        Group(task=siblings[0].task, step=step, split="validation", episodes=tuple(siblings))
        for (step, _), found in groupby(episodes, key=lambda episode: (episode.step, episode.task.task_id))
        if (siblings := list(found))
    ]


if __name__ == "__main__":
    main()
