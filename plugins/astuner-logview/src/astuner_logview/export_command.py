"""`astuner logview export`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astuner.cli.output import as_json, print_json
from astuner.contract.errors import UsageError

if TYPE_CHECKING:
    from astuner_logview.export.subjects import Subject
    from astuner_logview.export.writing import Form
    from astuner_logview.library import Library

LOOK_S = 0.1
"""Between two looks at an index that is being made."""
EXAMPLE = """\b
Examples:
  astuner logview export my-experiment --group train/12/task-3 --out group.html
  astuner logview export my-experiment --episode train/12/task-3/0 --out episode.md"""


@click.command(epilog=EXAMPLE)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--group", metavar="SPLIT/STEP/TASK", help="The group: all siblings of a task in a step.")
@click.option("--episode", metavar="ID", help="The episode, SPLIT/STEP/TASK/REPEAT.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The file to write: .html or .md.")
@as_json
def export(run: Path, group: str | None, episode: str | None, out: Path, in_json: bool) -> None:
    """Write a group or an episode as one file.

    RUN is a run directory, or the name of one in launcher_record. An .html opens from disk, without a network, and shows what
    the viewer shows; an .md is for an issue. Both hold texts of the run: look at them before you share them.
    """
    from astuner.runs.store.atomic import write_text
    from astuner_logview.commands import find_directory
    from astuner_logview.export.subjects import EpisodeSubject, parse_group
    from astuner_logview.export.writing import SUFFIXES
    from astuner_logview.library import Library
    from astuner_logview.run_ids import make_run_id

    if (group is None) == (episode is None):
        raise UsageError("astuner logview export: give either --group SPLIT/STEP/TASK or --episode ID")
    form = next((suffix for suffix in SUFFIXES if out.suffix == f".{suffix}"), None)
    if form is None:
        raise UsageError(f"--out {out}: the name must end in .html or .md")
    directory = find_directory(run).absolute()
    identity = make_run_id(directory)
    subject = parse_group(identity, group) if group is not None else EpisodeSubject(run=identity, id=str(episode))
    text = _write(Library([directory]), subject, form)
    write_text(out, text, private=False)
    click.echo(f"{out}: {len(text.encode()):,} bytes", err=True)
    if in_json:
        print_json({"file": out, "size_bytes": len(text.encode())})


def _write(library: Library, subject: Subject, form: Form) -> str:
    """Return the text of the file, as soon as the index has what is asked for."""
    from astuner_logview.errors import Missing, Unanswerable
    from astuner_logview.export.writing import ask_library, is_indexed, write_export

    library.indexer.start()
    try:
        while True:
            # Before the question: what is missing afterwards is missing from a whole index.
            indexed = is_indexed(library, subject.run)
            try:
                return write_export(subject, form, ask_library(library))
            except Missing:
                if indexed:
                    raise
            time.sleep(LOOK_S)
    except Unanswerable as error:
        remedy = f": {error.remedy}" if error.remedy else ""
        raise UsageError(f"astuner logview export: {error.message}{remedy}") from error
    finally:
        library.indexer.stop()
