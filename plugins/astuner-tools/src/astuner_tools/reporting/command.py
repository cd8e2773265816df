"""`astuner report`."""

from __future__ import annotations

import json
from pathlib import Path

import click
from attrs import asdict

from astuner.cli.output import as_json, print_json
from astuner.contract.errors import UsageError

EXAMPLE = """\b
Examples:
  astuner report my-experiment --out report.html
  astuner report launcher_record/my-experiment --out report.md"""


@click.command(epilog=EXAMPLE, short_help="Write a page of evidence on a run.")
@click.argument("run")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write: .html or .md.")
@as_json
def report(run: str, out: Path | None, in_json: bool) -> None:
    """Write a page on RUN to send to others: what was tuned, what came of it, curves, examples, failures, cost, provenance.

    RUN is a run directory, or the name of one in launcher_record. It may be running, interrupted or damaged, and nothing in it is
    changed. Every figure names the step, the episode or the file that it is from. An .html needs no network and no scripts. The
    page holds texts of the run: look at them before you share it.
    """
    from astuner.runs.inspection.run_search import open_run
    from astuner.runs.store.atomic import write_text
    from astuner_tools.reporting.making import LAYOUTS, make_report, write_report

    if out is None and not in_json:
        raise UsageError("astuner report: give --out FILE.html, --out FILE.md or --json")
    if out is not None and out.suffix not in LAYOUTS:
        raise UsageError(f"--out {out}: the name must end in .html or .md")
    if out is not None and not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no directory {out.parent}; make it, or name another")
    problems: list[str] = []
    opened = open_run(run, problems.append)
    made = make_report(opened)
    if out is not None:
        text = write_report({**made, "problems": [one.replace(f"{opened.path}/", "") for one in problems]}, out.suffix)
        write_text(out, text, private=False)
        click.echo(f"{out}: {len(text.encode()):,} bytes", err=True)
    if in_json:
        print_json({**json.loads(json.dumps(made, default=asdict)), "problems": problems})
    for problem in problems:
        click.echo(f"warning: {problem}", err=True)
