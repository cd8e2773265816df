"""How a run went: its curves, what of the sampled tokens was trained, what it cost."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from astuner.episodes.transcript.terminal_text import format_seconds
from astuner.runs.inspection.metric_names import find_metric_name
from astuner_tools.reporting.evidence import Cited, Evidence, cite_file

LOST = "signal/lost/tokens_"


@cache
def read_names() -> Mapping[str, Mapping[str, Any]]:
    """Return which metrics a report shows and what it calls them; `figures.toml` describes the tables."""
    return tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))


def name_loss(reason: str) -> str:
    """Return why tokens are not trained, in words."""
    return str(read_names()["losses"].get(reason, reason.replace("_", " ")))


def read_curves(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Yield the few charts that matter, each with its curves and, as figures, their ends and extremes."""
    agents = [name for name in evidence.metrics if name.startswith("reward/") and name.endswith("/mean") and name.count("/") == 2]
    for title, metrics in {**read_names()["curves"], "Reward by agent": agents}.items():
        found = {name: points for name in metrics if (points := evidence.read_curve(name))}
        if found:
            yield {"title": title, "curves": found, "ends": {name: _cite_ends(evidence, name) for name in found}}


def _cite_ends(evidence: Evidence, name: str) -> dict[str, Any]:
    points, known = evidence.read_curve(name), find_metric_name(name)
    low, high = (choose(points, key=lambda point: point[1])[0] for choose in (min, max))
    ends = {"first": points[0][0], "last": points[-1][0], "lowest": low, "highest": high}
    return {"unit": known.unit if known else "", **{key: (step, evidence.cite(name, step)) for key, step in ends.items()}}


def pour_waterfall(evidence: Evidence) -> dict[str, Any]:
    """Return what became of the sampled tokens, and of episodes, groups and rows, over all steps.

    `tokens` are labels, figures and shares of the sampled ones; empty if no step has recorded what it trained.
    """
    counts = {label: found for label, name in read_names()["counts"].items() if (found := evidence.cite_sum(name))}
    if not evidence.read_curve("signal/tokens_trainable"):
        return {"tokens": [], "counts": counts}
    sampled, trainable, live = (
        evidence.add_up(name) for name in ("tokens/generated", "signal/tokens_trainable", "signal/tokens_nonzero_advantage")
    )
    lost = {name: evidence.add_up(name) for name in evidence.metrics if name.startswith(LOST)}
    lines = [("sampled", "tokens/generated", sampled)]
    for name, count in sorted(lost.items(), key=lambda one: -one[1]):
        lines.append((f"− {name_loss(name.removeprefix(LOST))}", name, count))
    rest = f"tokens/generated − {LOST}… − signal/tokens_trainable"
    lines.append(("− of episodes without a reward", rest, sampled - sum(lost.values()) - trainable))
    lines.append(("= trainable", "signal/tokens_trainable", trainable))
    equal = "signal/tokens_trainable − signal/tokens_nonzero_advantage"
    lines.append((f"− {name_loss('no_signal')}", equal, trainable - live))
    lines.append(("= with signal: they change the weights", "signal/tokens_nonzero_advantage", live))
    shown = [line for line in lines if line[2] > 0 or not line[0].startswith("−")]
    tokens = [(label, evidence.cite_sum(name, value=count), count / sampled if sampled else 0.0) for label, name, count in shown]
    return {"tokens": tokens, "counts": counts}


def add_up_cost(evidence: Evidence) -> dict[str, Any]:
    """Return tokens and times by label, in training and in validations, and money where it is known."""
    pairs = {label: [evidence.cite_sum(name) for name in names] for label, names in read_names()["costs"].items()}
    for label, name in read_names()["times"].items():
        pairs[label] = [evidence.cite_sum(name, format_seconds(evidence.add_up(name))), None]
    spent = evidence.read_curve("tinker/cost")
    money = evidence.cite("tinker/cost", spent[-1][0], f"${spent[-1][1]:.2f}") if spent else None
    return {"table": {label: pair for label, pair in pairs.items() if any(pair)}, "server": money, **_count_requests(evidence)}


def _count_requests(evidence: Evidence) -> dict[str, Cited | None]:
    """Return what LLM judges have asked, and its price; a line of their log is what one process has asked."""
    file, totals = evidence.run.directory.logs / "llm_judge.jsonl", {"requests": 0.0, "cost": 0.0}
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else ():
        try:
            found = json.loads(line)
            totals = {key: total + float(found[key]) for key, total in totals.items()}
        except (ValueError, RecursionError, LookupError, TypeError):
            continue
    return {key: cite_file(f"logs/llm_judge.jsonl: {key}, added up", total) if total else None for key, total in totals.items()}
