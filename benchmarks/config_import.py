"""What `astuner config import` makes of another trainer's own examples: a table of keys, file by file.

`python benchmarks/config_import.py DIR --from trinity`, where the trainer is installed, reads every YAML and script below DIR.
What only the user has (the model, the data, the code of an agent) is replaced before a result is validated, and counted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml
from attrs import evolve, frozen

from astuner.contract.errors import AstunerError, ConfigError
from astuner.settings.config.trees import flatten
from astuner.settings.planning.plan import plan_run
from astuner_tools.config_import.agent_file import AGENT, AGENT_FILE, NAMES
from astuner_tools.config_import.importing import USERS_FILES, Imported, import_config

SUFFIXES = (".yaml", ".yml", ".sh")
COLUMNS = ("keys", "arrived", "native", "not needed", "left out", "unanswered")
PACKAGES: Mapping[str, str] = {"trinity": "trinity-rft", "verl": "verl", "trl": "trl", "ajet": "agentjet"}


@frozen(kw_only=True)
class Row:
    """What became of a file."""

    name: str
    counts: Counter[str]
    validates: str
    """`yes`, `yes, after N values of the user's`, or the first problem."""
    reasons: tuple[tuple[str, str], ...] = ()


def main() -> None:
    """Print the table, and what is left out most often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--from", dest="origin", required=True)
    parser.add_argument("--reasons", type=int, default=0, metavar="N", help="also print the N most frequent reasons")
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.directory.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    rows, refused = [], []
    for path in files:
        name = str(path.relative_to(arguments.directory))
        try:
            rows.append(count_keys(path, name, arguments.origin))
        except AstunerError as error:
            refused.append(f"{name}: {error}")
    print(f"{arguments.origin} {find_version(arguments.origin)}\n")
    print(format_table(rows))
    for line in refused:
        print(f"Refused: {line}")
    reasons = Counter((key, reason) for row in rows for key, reason in row.reasons)
    for (key, reason), count in reasons.most_common(arguments.reasons):
        print(f"{count:4d}  {key}: {reason}")


def find_version(origin: str) -> str:
    """Return the version of the trainer that is installed here."""
    try:
        return version(PACKAGES.get(origin, origin))
    except PackageNotFoundError:
        return "(not installed)"


def count_keys(path: Path, name: str, origin: str) -> Row:
    """Import a file into an empty directory; raises `AstunerError` for one that is not a configuration."""
    with tempfile.TemporaryDirectory() as home:
        target = Path(home) / "tune.yaml"
        imported = import_config(path, origin, target)
        target.write_text(imported.text, encoding="utf-8")
        (target.parent / AGENT_FILE).write_text(AGENT, encoding="utf-8")
        return Row(
            name=name,
            counts=Counter(classify(imported)),
            validates=validate(target),
            reasons=tuple((answer.key, answer.reason) for answer in imported.answers if answer.kind == "dropped"),
        )


def classify(imported: Imported) -> Iterator[str]:
    """Yield the columns in which each key counts."""
    for answer in imported.answers:
        yield "keys"
        if answer.kind == "translated" and answer.keys:
            yield "arrived" if all(key.startswith("astuner.") for key in answer.keys) else "native"
        elif answer.reason:
            yield "not needed" if answer.kind == "ignored" else "left out"
        else:
            yield "unanswered"


def validate(target: Path) -> str:
    """Validate a result as `astuner config validate` does, after providing what only the user has."""
    values: Mapping[str, Any] = yaml.safe_load(target.read_text(encoding="utf-8"))
    overrides = []
    for key, value in flatten(values).items():
        if key.startswith(USERS_FILES) and isinstance(value, str) and not value.startswith(f"./{AGENT_FILE}"):
            if name := NAMES.get(key.removeprefix("astuner.")):
                overrides.append(f"{key}=./{AGENT_FILE}:{name}")
                continue
            is_path = value.startswith(("/", "~", "."))
            if "${oc.env:" not in value and not key.endswith("file_path") and not is_path:
                continue
            stand_in = target.parent / f"stand_in{len(overrides)}{Path(value).suffix or '.jsonl'}"
            stand_in.write_bytes(b"")
            overrides.append(f"{key}={'org/name' if key.endswith('model.path') else stand_in}")
    if not flatten(values).get("astuner.model.path"):
        overrides.append("astuner.model.path=org/name")
    try:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            plan_run(target, overrides, None)
    except ConfigError as error:
        return f"no: {evolve(error.problems[0], file=None, line=None)}"
    except AstunerError as error:
        return f"no: {error}"
    return f"yes, after {len(overrides)} values of the user's" if overrides else "yes"


def format_table(rows: list[Row]) -> str:
    """Return a Markdown table with a last row for all files."""
    lines = [f"| file | {' | '.join(COLUMNS)} | validates |", f"|---|{'---|' * len(COLUMNS)}---|"]
    lines += [f"| {row.name} | {_format_counts(row.counts)} | {row.validates} |" for row in rows]
    whole: Counter[str] = Counter()
    for row in rows:
        whole.update(row.counts)
    valid = sum(row.validates.startswith("yes") for row in rows)
    lines.append(f"| {len(rows)} files | {_format_counts(whole)} | {valid} of {len(rows)} |")
    return "\n".join(lines)


def _format_counts(counts: Mapping[str, int]) -> str:
    return " | ".join(f"{counts.get(column, 0):,}" for column in COLUMNS)


if __name__ == "__main__":
    sys.exit(main())
