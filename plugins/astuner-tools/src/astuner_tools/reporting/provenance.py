"""Why the run is as it is, and what is needed to repeat it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from astuner.contract.errors import UsageError
from astuner.settings.config.trees import get
from astuner_tools.diagnosis.report import format_change
from astuner_tools.diagnosis.rules import diagnose
from astuner_tools.diagnosis.run_record import read_run_record
from astuner_tools.reporting.evidence import Cited, Evidence, cite_file
from astuner_tools.training_facts import hide_directory, list_facts, list_versions

SOURCES = {"data.files": "task file", "data.revisions": "data set", "code": "code", "model": "model"}


def tell_findings(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Yield what `astuner why` says."""
    command = shlex.join(["astuner", "why", evidence.name])
    for one in diagnose(read_run_record(evidence.run, rows=evidence.rows)):
        place = f"astuner why: {one.id}" + (f", of {', '.join(one.metrics)}" if one.metrics else "")
        message = Cited(text=one.message, value=dict(one.numbers), place=place, command=command)
        told = {"symptom": one.symptom, "message": message, "change": format_change(one), "advice": one.advice}
        yield {**told, "episodes": [evidence.cite_episode(identity) for identity in one.episodes]}


def list_provenance(evidence: Evidence) -> list[tuple[str, Cited]]:
    """Return the fingerprints, versions, seed and command, each with a label."""
    versions = ("versions", list_versions(evidence.run), "run.json: versions, plugins")
    found = [*list_facts(evidence.run, "provenance"), *([versions] if versions[1] else ()), *_list_facts(evidence.run.facts)]
    return [(label, cite_file(place, value)) for label, value, place in found]


def read_given(evidence: Evidence) -> Cited | None:
    """Return the configuration as it was given; None if it cannot be read."""
    try:
        given = (evidence.run.directory.read_config() or {}).get("given")
    except UsageError:
        return None
    return cite_file("config.yaml: given", given) if given else None


def _list_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for key, what in SOURCES.items():
        for name, mark in (get(facts, f"sources.{key}") or {}).items():
            for file, digest in mark.items() if isinstance(mark, dict) else ((name, mark),):
                yield f"{what} {PurePath(file).name}", str(digest), f"run.json: sources.{key}"
    if git := facts.get("git"):
        yield "commit", f"{git.get('commit')}{'' if git.get('clean') else ', with changes'}", "run.json: git"
    if attempts := facts.get("attempts"):
        yield "started", ", ".join(str(one.get("started")) for one in attempts), "run.json: attempts"
    if command := facts.get("command"):
        yield "command", _format_command(command), "run.json: command"


def _format_command(command: Sequence[str]) -> str:
    """Return the command that starts the run from its beginning, without directories of this machine."""
    program, *rest = command
    parts = [re.sub(r"(?<==)/.*|^/.*", lambda path: PurePath(path[0]).name, part) for part in rest if part != "--resume"]
    return shlex.join(["astuner" if PurePath(program).name == "__main__.py" else hide_directory(program), *parts])
