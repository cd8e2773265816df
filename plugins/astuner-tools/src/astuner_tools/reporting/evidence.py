"""A run as a report reads it: metrics by step, and figures that say where they are from."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from attrs import define, frozen

from astuner.runs.inspection.run import Run
from astuner.runs.store.episode_index import EpisodeIndex, IndexedEpisode
from astuner.runs.store.metric_rows import Row
from astuner_tools.diagnosis.report import format_episode_command

Kind = Literal["train", "validation"]
QUOTIENT = " ÷ "
PLACES = {"train": "metrics.jsonl: training step", "validation": "metrics.jsonl: validation after step"}


@frozen(kw_only=True)
class Cited:
    """A figure as it is printed, and where it is from."""

    text: str
    value: Any
    """As it was recorded."""
    place: str
    """A row of the metrics, an episode, or a file and its key."""
    command: str = ""
    """What shows the place."""
    metric: str = ""
    """Whose value it is; of two with ` ÷ ` between them, their quotient."""


@define(eq=False, slots=False)
class Evidence:
    """What the sections of a report are made of."""

    run: Run
    rows: Sequence[Row]

    @cached_property
    def name(self) -> str:
        """The run as commands take it where `launcher_record` is."""
        parts = self.run.path.absolute().parts
        above = [place for place, part in enumerate(parts[:-1]) if part == "launcher_record"]
        return "/".join(parts[above[-1] + 1 :]) if above else self.run.name

    @cached_property
    def by_step(self) -> Mapping[Kind, Mapping[int, Row]]:
        """The rows of training steps and of validations, in the order of the steps; of several rows the last value counts."""
        found: dict[Kind, dict[int, Row]] = {"train": {}, "validation": {}}
        for row in self.rows:
            numbers = {name: value for name, value in row.items() if value is not None}
            found.get(row["kind"], {}).setdefault(row["step"], {}).update(numbers)
        return {kind: dict(sorted(rows.items())) for kind, rows in found.items()}

    @cached_property
    def validations(self) -> Sequence[Row]:
        """The rows of validations that have a mean reward."""
        return [row for row in self.by_step["validation"].values() if "val/reward/mean" in row]

    @cached_property
    def metrics(self) -> Sequence[str]:
        """The names in any row, in their order."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @cached_property
    def validated(self) -> EpisodeIndex:
        """The episodes of all validations."""
        return self.run.index_episodes("validation")

    @cached_property
    def ends(self) -> Sequence[Sequence[IndexedEpisode]]:
        """The episodes of the first and of the last validation; nothing of a run that has only one."""
        steps = [self.validations[at]["step"] for at in (0, -1)] if len(self.validations) > 1 else []
        return [[one for one in self.validated if one.step == step] for step in steps]

    def read_curve(self, metric: str) -> Sequence[tuple[int, float]]:
        """Return the steps and values of a metric, or of a quotient of two."""
        rows = self.by_step["validation" if metric.startswith("val/") else "train"]
        return [(step, value) for step, row in rows.items() if (value := _read(row, metric)) is not None]

    def cite(self, metric: str, step: int, text: str | None = None) -> Cited | None:
        """Return a metric of a step; None if it was not recorded."""
        value = dict(self.read_curve(metric)).get(step)
        return None if value is None else self._cite_rows(metric, [step], value, text)

    def cite_sum(self, metric: str, text: str | None = None, value: float | None = None) -> Cited | None:
        """Return the sum of a metric over all steps; None if no step has it. With a `value`, a figure made of such sums."""
        steps = list(self.by_step["train"]) if value is not None else [step for step, _ in self.read_curve(metric)]
        return self._cite_rows(metric, steps, self.add_up(metric) if value is None else value, text) if steps else None

    def add_up(self, metric: str) -> float:
        """Return the sum of a metric over all steps."""
        return sum(value for _, value in self.read_curve(metric))

    def cite_episode(self, identity: str, value: Any = None) -> Cited:
        """Return an episode's id, or a figure of it."""
        found = identity if value is None else value
        command = format_episode_command(self.name, identity)
        return Cited(text=format_number(found), value=found, place=f"episode {identity}", command=command)

    def _cite_rows(self, metric: str, steps: Sequence[int], value: float, text: str | None) -> Cited:
        kind: Kind = "validation" if metric.startswith("val/") else "train"
        one = len(steps) == 1
        place = f"{PLACES[kind]} {steps[0]}" if one else f"{PLACES[kind]}s {steps[0]} to {steps[-1]}, added up"
        command = ["astuner", "episodes", self.name, "--split", kind, *(("--step", str(steps[0])) if one else ())]
        found = format_number(value) if text is None else text
        return Cited(text=found, value=value, place=place, command=shlex.join(command), metric=metric)


def cite_file(place: str, value: Any) -> Cited:
    """Return what a file of the run says at a key, as `run.json: seed`."""
    return Cited(text=format_number(value), value=value, place=place)


def format_number(value: Any) -> str:
    """Return a number with four digits or, of a whole one, all of them; anything else as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def _read(row: Row, metric: str) -> float | None:
    values = [value for name in metric.split(QUOTIENT) if isinstance(value := row.get(name), int | float)]
    if len(values) == 2:
        return values[0] / values[1] if values[1] else None
    return values[0] if values and QUOTIENT not in metric else None
