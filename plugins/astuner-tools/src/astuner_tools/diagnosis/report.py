"""A diagnosis as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from astuner_tools.diagnosis.findings import Finding

NOTHING = "nothing stands out"


def format_findings(findings: Sequence[Finding], name: str) -> Iterator[str]:
    """Yield the lines of a diagnosis; `name` is the run as its commands take it."""
    for number, one in enumerate(findings, 1):
        yield from ([""] if number > 1 else [])
        yield f"{number}. {one.symptom}: {one.message}"
        yield f"   change:  {format_change(one)}"
        yield f"            {one.advice}"
        for identity in one.episodes:
            yield f"   look at: {identity}   {format_episode_command(name, identity)}"
        yield f"   more:    {one.page}"


def format_change(finding: Finding) -> str:
    """Return the key to change with its value, as `--set` or as words."""
    return f"{finding.key}: {finding.value}" if finding.value else finding.key


def format_line(finding: Finding, name: str) -> str:
    """Return a finding in one line, with the command that says more."""
    return f"{finding.symptom}: {finding.message}. Change {format_change(finding)}; `astuner why {shlex.quote(name)}` says more"


def format_episode_command(name: str, identity: str) -> str:
    """Return the command that shows an episode with its siblings; its id is `SPLIT/STEP/TASK/REPEAT`."""
    split, step, rest = identity.split("/", 2)
    task = rest.rpartition("/")[0]
    return shlex.join(["astuner", "episodes", name, "--split", split, "--step", step, "--task", task])
