"""`astuner plugin check`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click
from attrs import asdict

from astuner.cli.output import align_columns, as_json, print_json
from astuner.contract.errors import UsageError
from astuner_devkit.contracts import Outcome
from astuner_devkit.plugin_check import ComponentCheck, DistributionCheck, check_distribution

EXAMPLE = """\b
Example:
  astuner plugin check acme-strict"""


@click.command(epilog=EXAMPLE, short_help="Check an installed distribution against the contracts.")
@click.argument("distribution", metavar="DIST")
@as_json
def check(distribution: str, in_json: bool) -> int:
    """Check an installed distribution, and each component that it offers, against the contracts. Starts no model."""
    if sys.flags.optimize:
        raise UsageError("plugin check: the rules are assertions, which python -O (PYTHONOPTIMIZE) leaves out; run it without")
    found = check_distribution(distribution)
    if in_json:
        print_json(_document(found))
    else:
        click.echo("\n".join(_lines(found)))
    return 0 if found.passed else 1


def _lines(found: DistributionCheck) -> Iterator[str]:
    yield f"{found.distribution} {found.version}"
    yield from _rows(found.package)
    for component in found.components:
        candidate = component.candidate
        yield from ("", f"{candidate.kind} {candidate.name} ({candidate.target})")
        yield from _rows(component.outcomes)
        if component.contract is None:
            yield f"  no contract for the kind '{candidate.kind}'"
        elif component.waiting:
            yield f"  {_rules(len(component.waiting))} for data: run them in your tests: {_example(component)}"
    counted = Counter(outcome.status for outcome in found.outcomes)
    waiting = sum(len(component.waiting) for component in found.components)
    yield from ("", f"{counted['passed']} passed, {counted['failed']} failed, {counted['skipped']} skipped, {waiting} waiting")


def _rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    table = align_columns([(outcome.status, outcome.meaning) for outcome in outcomes]).splitlines()
    for line, outcome in zip(table, outcomes, strict=True):
        yield f"  {line}"
        if outcome.message:
            yield from (f"          {part}" for part in outcome.message.splitlines())


def _rules(count: int) -> str:
    return f"{count} rules wait" if count > 1 else "1 rule waits"


def _example(component: ComponentCheck) -> str:
    name = "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]+", component.candidate.name))
    return f"class Test{name}({component.contract})"


def _document(found: DistributionCheck) -> dict[str, Any]:
    return {
        "distribution": found.distribution,
        "version": found.version,
        "passed": found.passed,
        "package": list(map(asdict, found.package)),
        "components": [
            {
                "kind": component.candidate.kind,
                "name": component.candidate.name,
                "target": component.candidate.target,
                "contract": component.contract,
                "rules": list(map(asdict, component.outcomes)),
                "waiting": list(component.waiting),
            }
            for component in found.components
        ],
    }
