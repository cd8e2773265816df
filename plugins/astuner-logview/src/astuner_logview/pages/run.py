"""The page of one run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from astuner.contract.errors import AstunerError
from astuner.runs.inspection import find_metric_name
from astuner.runs.store.metric_rows import read_curve
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library, LibraryRun
from astuner_logview.pages.problems import list_problems
from astuner_logview.pages.run_rows import describe_run
from astuner_logview.parameters import Parameters
from astuner_logview.trainer_values import describe_record
from astuner_tools.run_summary import VALIDATION

GROUPS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("Reward", ("reward/", "success/", "workflow/")),
    ("Validation", ("val/",)),
    ("Divergence", ("kl/", "entropy/", "loss/", "grad/", "update/", "lr", "clip/", "correction/", "mismatch/", "ratio/")),
    ("Lengths", ("tokens/", "length/")),
    ("Signal", ("signal/", "madness/", "staleness/")),
    ("Time", ("time/",)),
)
"""The order of the charts, by the beginnings of the metrics' names."""

FIRST = (
    "reward/mean",
    "success/rate",
    "val/reward/mean",
    "val/success/rate",
    "kl/mean",
    "entropy/mean",
    "tokens/generated",
    "time/step_s",
)
"""The first charts of their groups."""


def show_run(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return what is known of a run besides its curves and its episodes."""
    run = library.find(parameters.run)
    facts, rows = run.run.facts, run.run.read_rows()
    with run.index.open() as connection:
        splits = {
            split: {
                "steps": [
                    row[0] for row in connection.execute("SELECT DISTINCT step FROM episodes WHERE split=? ORDER BY 1", (place,))
                ],
                "episodes": connection.execute("SELECT count(*) FROM episodes WHERE split=?", (place,)).fetchone()[0],
            }
            for place, split in enumerate(SPLITS)
        }
        agents = [row[0] for row in connection.execute("SELECT DISTINCT value FROM episodes, json_each(agents) ORDER BY 1")]
        components = [row[0] for row in connection.execute("SELECT DISTINCT key FROM episodes, json_each(components) ORDER BY 1")]
    return {
        **describe_run(library, run),
        "versions": facts.get("versions") or {},
        "plugins": [_name_plugin(one) for one in facts.get("plugins") or () if isinstance(one, dict)],
        "command": _join(facts.get("command")),
        "git": facts.get("git"),
        "attempts": facts.get("attempts") or [],
        "seed": facts.get("seed"),
        "config": _read_config(run),
        "checkpoints": _list_checkpoints(run, rows),
        "validations": [{"step": step, "reward": reward} for step, reward in read_curve(rows, VALIDATION)],
        "splits": splits,
        "tokenizer": run.run.find_tokenizer() is not None,
        "tokens_recorded": describe_record(run.path),
        "agents": agents,
        "components": components,
        "problems": list_problems(run),
    }


def show_metrics(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return the rows of metrics, and what each metric is."""
    run = library.find(parameters.run)
    rows: dict[str, list[dict[str, Any]]] = {"train": [], "validation": []}
    for row in run.run.read_rows():
        rows.setdefault(row["kind"], []).append(row)
    found = {kind: _join_steps(many) for kind, many in rows.items()}
    names = {
        name: None
        for many in found.values()
        for row in many
        for name, value in row.items()
        if name not in ("step", "kind") and (value is None or (isinstance(value, int | float) and math.isfinite(value)))
    }
    meanings = {name: _describe_metric(name) for name in names}
    return {
        "train": found["train"],
        "validation": found["validation"],
        "names": meanings,
        "groups": group_metrics(list(names)),
        "problems": list_problems(run),
    }


def group_metrics(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the metrics in the order in which charts are shown."""
    left, groups = list(names), []
    for title, beginnings in GROUPS:
        found = [name for name in left if name.startswith(beginnings)]
        left = [name for name in left if name not in found]
        if found:
            found.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
            groups.append({"title": title, "metrics": found})
    if left:
        groups.append({"title": "Others", "metrics": left})
    return groups


def _describe_metric(name: str) -> dict[str, str]:
    known = find_metric_name(name)
    return {"unit": known.unit, "meaning": known.about} if known is not None else {"unit": "", "meaning": ""}


def _join_steps(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each step: of several, the last one with a metric counts."""
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["step"], {}).update(row)
    return [found[step] for step in sorted(found)]


def _list_checkpoints(run: LibraryRun, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        steps = run.run.directory.list_saved_steps()
    except OSError:
        return []
    rewards = dict(read_curve(rows, VALIDATION))
    known = [step for step in steps if step in rewards]
    best = max(known, key=lambda step: (rewards[step], -step), default=None)
    return [{"step": step, "best": step == best, "last": step == steps[-1]} for step in steps]


def _read_config(run: LibraryRun) -> dict[str, Any]:
    try:
        document = run.run.directory.read_config() or {}
    except (AstunerError, OSError) as error:
        run.problems.append(str(error))
        document = {}
    return {"given": str(document.get("given") or ""), "resolved": document.get("resolved") or {}}


def _name_plugin(entry: Mapping[str, Any]) -> str:
    source = " ".join(str(entry.get(key) or "") for key in ("distribution", "version")).strip()
    return f"{entry.get('kind', '')} {entry.get('name', '')}" + (f" ({source})" if source else "")


def _join(command: Any) -> str | None:
    if isinstance(command, list):
        import shlex

        return shlex.join(map(str, command))
    return command if isinstance(command, str) else None
