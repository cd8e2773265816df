"""What a diagnosis reads of a run: its metrics, its configuration, and the episodes of its first and its last steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import field, frozen

from astuner.contract.schema import GREEDY, Episode, Split
from astuner.runs.inspection.run import Run
from astuner.runs.store.codec import load_episode, load_verdict
from astuner.runs.store.metric_rows import Row, read_curve
from astuner.runs.store.store_lines import UNREADABLE, read_place, read_records
from astuner.settings.config.trees import get

FIRST_STEPS, LAST_STEPS = 3, 4
"""Training steps at each end whose episodes are read."""
MOST_EPISODES = 400
"""Episodes of one step that are read."""

Decode = Callable[[Sequence[int]], str]


@frozen(kw_only=True, eq=False)
class RunRecord:
    """A run as a diagnosis reads it; what is missing or damaged is empty."""

    name: str
    rows: Sequence[Row] = ()
    config: Mapping[str, Any] = field(factory=dict)
    """The section `astuner`, with all defaults."""
    early: Sequence[Episode] = ()
    """Training episodes of the first steps."""
    late: Sequence[Episode] = ()
    """Training episodes of the last steps; of a run of few steps none of them are in `early`."""
    first_validation: Sequence[Episode] = ()
    last_validation: Sequence[Episode] = ()
    trains_weights: bool = True
    """False for a run that tunes prompts."""
    decode: Decode | None = None
    """Turns the ids of the model into text, if its tokenizer is at hand."""

    def read(self, metric: str) -> list[tuple[int, float]]:
        """Return the steps and values of a metric of training steps, or of validations if it begins with `val/`."""
        kind = "validation" if metric.startswith("val/") else "train"
        return read_curve((row for row in self.rows if row["kind"] == kind), metric)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of the configuration; the default if it is not set."""
        value = get(self.config, key)
        return default if value is None else value

    @cached_property
    def steps(self) -> Sequence[int]:
        """The training steps with metrics."""
        return sorted({row["step"] for row in self.rows if row["kind"] == "train"})

    @property
    def episodes(self) -> Sequence[Episode]:
        """All training episodes that were read."""
        return [*self.early, *self.late]


def read_run_record(run: Run, *, rows: Sequence[Row] | None = None) -> RunRecord:
    """Read a run of any state, without its lock; `rows` are its metrics, if they were read already."""
    found = run.read_rows() if rows is None else rows
    train = sorted({row["step"] for row in found if row["kind"] == "train"})
    if not train or run.state.status == "failed":
        # What ended a run is in the episodes of a step that was never finished.
        train = sorted({*train, *_list_steps(run, after=train[-1] if train else 0)})
    last = train[-LAST_STEPS:]
    first = [step for step in train[:FIRST_STEPS] if step not in last] if len(train) > LAST_STEPS else []
    played = _read_steps(run, "train", {*first, *last})
    validated = sorted({row["step"] for row in found if row["kind"] == "validation"})
    ends = [validated[0], validated[-1]] if len(validated) > 1 else []
    validations = _read_steps(run, "validation", set(ends))
    tokenizer = run.find_tokenizer()
    return RunRecord(
        name=run.name,
        rows=found,
        config=run.config,
        early=[episode for step in first for episode in played.get(step, ())],
        late=[episode for step in last for episode in played.get(step, ())],
        first_validation=validations.get(ends[0], ()) if ends else (),
        last_validation=validations.get(ends[1], ()) if ends else (),
        trains_weights=not (run.directory.path / "prompts.json").exists(),
        decode=None if tokenizer is None else tokenizer.decode,
    )


def _list_steps(run: Run, after: int) -> set[int]:
    """Return the training steps after one of which episodes are stored."""
    found: set[int] = set()

    def wants(line: bytes) -> bool:
        kind, step = read_place(line)
        found.update({step} if kind == "episode" and step is not None and step > after else ())
        return step is None

    for _, record in read_records(run.directory.episodes / "train.jsonl", wants=wants):
        if record["kind"] == "cut":
            found = {step for step in found if step <= record["step"]}
    return found


def _read_steps(run: Run, split: Split, steps: Collection[int]) -> dict[int, list[Episode]]:
    """Return episodes with their verdicts by step, in one pass over the file; damaged ones are left out."""
    path: Path = run.directory.episodes / f"{split}.jsonl"
    if not steps or not path.is_file():
        return {}
    found: dict[str, Episode] = {}
    counts: dict[int, int] = {}

    def wants(line: bytes) -> bool:
        kind, step = read_place(line)
        return step is None or (step in steps and (kind == "verdicts" or counts.get(step, 0) < MOST_EPISODES))

    for _, record in read_records(path, wants=wants):
        if record["kind"] == "cut":
            found = {identity: one for identity, one in found.items() if one.step <= record["step"]}
            continue
        try:
            if record["kind"] == "episode" and record["episode"]["step"] in steps:
                one = load_episode(record["episode"])
                found[one.id] = one
                counts[one.step] = counts.get(one.step, 0) + 1
            elif record["kind"] == "verdicts":
                _add_verdicts(found, record["verdicts"])
        except UNREADABLE:
            continue
    return _group_by_step(found.values())


def _add_verdicts(found: dict[str, Episode], verdicts: Mapping[str, Any]) -> None:
    for identity, data in verdicts.items():
        verdict = load_verdict(data)
        if identity in found and verdict is not None:
            found[identity] = found[identity].with_verdict(verdict)


def _group_by_step(episodes: Iterable[Episode]) -> dict[int, list[Episode]]:
    by_step: dict[int, list[Episode]] = {}
    played = (one for one in episodes if one.repeat != GREEDY)
    for one in sorted(played, key=lambda one: (one.step, one.task.task_id, one.repeat)):
        by_step.setdefault(one.step, []).append(one)
    return by_step
