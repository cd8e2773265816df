"""`astuner why`."""

from __future__ import annotations

import click

from astuner.cli.output import as_json, print_json

EXAMPLE = """\b
Examples:
  astuner why my-experiment
  astuner why launcher_record/my-experiment --json"""


@click.command(epilog=EXAMPLE, short_help="Say what holds a run back, and what to change.")
@click.argument("run")
@as_json
def why(run: str, in_json: bool) -> None:
    """Say what holds RUN back: the most likely cause first, with its numbers, two episodes and the key to change.

    RUN is a run directory, or the name of one in launcher_record. It may be running, interrupted or damaged, and nothing in it is
    changed. The metrics are read, and the episodes of the first and the last steps.
    """
    from astuner.runs.inspection.run_search import open_run
    from astuner_tools.diagnosis.report import NOTHING, format_findings
    from astuner_tools.diagnosis.rules import diagnose, list_rules
    from astuner_tools.diagnosis.run_record import read_run_record

    problems: list[str] = []
    record = read_run_record(open_run(run, problems.append))
    findings = diagnose(record)
    if in_json:
        found = [one.to_json() for one in findings]
        print_json({"run": record.name, "steps": len(record.steps), "findings": found, "problems": problems})
        return
    for line in format_findings(findings, run):
        click.echo(line)
    if not findings:
        steps = f"{len(record.steps)} step{'s' if len(record.steps) > 1 else ''}"
        looked = f"{len(list_rules())} rules looked at {steps}; docs/why.md lists them"
        click.echo(f"{NOTHING}: {looked if record.steps else 'no training step is recorded yet'}")
    for problem in problems:
        click.echo(f"warning: {problem}", err=True)
