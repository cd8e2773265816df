"""A run on disk, of any state: its metrics and episodes. Nothing in it is locked or changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import UsageError

if TYPE_CHECKING:
    from astuner.contract.schema import Episode, Split
    from astuner.runs.inspection.run_state import RunState
    from astuner.runs.inspection.selection import Selection
    from astuner.runs.inspection.stored_tokenizer import StoredTokenizer
    from astuner.runs.store.episode_index import EpisodeIndex
    from astuner.runs.store.metric_rows import Row

Report = Callable[[str], object]

MARKS = ("run.json", "state.json", "metrics.jsonl", "episodes/train.jsonl", "episodes/validation.jsonl")
"""A directory with one of these is a run; any of them may be lost."""


def is_run(path: Path) -> bool:
    """Whether a directory holds a run, or what is left of one."""
    return any((path / mark).is_file() for mark in MARKS)


def refuse_directory(path: Path) -> UsageError:
    """Return the error for a directory that is not a run."""
    return UsageError(f"{path}: not a run directory (it has no run.json); name one like launcher_record/my-experiment")


class Run:
    """A run directory to look at: `Run("launcher_record/my-experiment").metrics`."""

    def __init__(self, path: Path | str, report: Report | None = None) -> None:
        """Name the directory. Damaged parts are left out: `report` gets a message about each; without it they are warnings.

        Raises `UsageError` for a directory that is not a run, or with a pipe or a directory in place of one of its files.
        """
        from astuner.runs.store.directory import RunDirectory

        self.path = Path(path)
        if not is_run(self.path):
            raise refuse_directory(self.path)
        self.directory = RunDirectory(self.path)
        self.directory.check_kinds()
        self._report: Report = report or (lambda text: warnings.warn(text, stacklevel=4))
        self._reported: set[str] = set()

    def __repr__(self) -> str:
        """Name the directory, as a notebook shows it."""
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Return its state and rewards, for notebooks; nothing in it is markup."""
        from astuner.runs.store.metric_rows import read_curve

        rows, lines = self.read_rows(), [f"{self.path}: {self.state.status}"]
        for name in ("reward/mean", "val/reward/mean"):
            if points := read_curve(rows, name):
                (first, begin), (last, end) = points[0], points[-1]
                lines.append(f"{name:<16} {begin:.3f} -> {end:.3f} (steps {first} to {last})")
        text = "\n".join(lines)
        return f"<pre>{escape(text)}</pre>"

    def plot(self, *names: str) -> Any:
        """Draw metrics by step, the rewards by default, and return matplotlib's axes; raises `ImportError` without it."""
        from astuner.settings.plugins.functions import load_function

        return load_function("plot_run", "Run.plot: what draws metrics")(self, names)

    @property
    def metrics(self) -> Any:
        """The metrics: one row for each step and each validation; a pandas data frame, or a list of dicts without pandas."""
        try:
            import pandas
        except ImportError:
            return self.read_rows()
        return pandas.DataFrame(self.read_rows())

    @property
    def state(self) -> RunState:
        """What the run does now, or how it ended."""
        from astuner.runs.inspection.run_state import RunState, find_state

        state = self._read(lambda: self.directory.state)
        return RunState(status="damaged") if state is None else find_state(self.path, state, self.facts)

    @property
    def facts(self) -> dict[str, Any]:
        """What `run.json` holds; empty if it is damaged."""
        return self._read(lambda: self.directory.run) or {}

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.path.absolute().name

    @property
    def config(self) -> Mapping[str, Any]:
        """The section `astuner` of the configuration, as resolved at the last start; empty if it is damaged."""
        found = (self.read_config() or {}).get("astuner")
        return found if isinstance(found, dict) else {}

    def read_config(self) -> Mapping[str, Any] | None:
        """Return the resolved configuration with all its roots; None if it is missing or damaged."""
        document = self._read(lambda: self.directory.read_config())
        return None if document is None else document["resolved"]

    def read_rows(self, names: Sequence[str] | None = None) -> list[Row]:
        """Return the rows of `metrics.jsonl`; with `names` these metrics alone, in a fraction of the time."""
        from astuner.runs.store.metric_rows import read_metric_rows

        found = self._read(lambda: read_metric_rows(self.directory.metrics, names))
        if found is not None and found.damaged:
            self._warn(f"{self.directory.metrics}:{found.damaged[0]}: {_count(found.damaged, 'line')} damaged and left out")
        return [] if found is None else list(found.rows)

    def episodes(
        self,
        *,
        split: Split | None = None,
        step: int | None = None,
        task: str | None = None,
        failed: bool = False,
        min_reward: float | None = None,
        grep: str | None = None,
        lowest: int | None = None,
        highest: int | None = None,
    ) -> Iterator[Episode]:
        """Yield the selected episodes with their rewards, one at a time in memory: all conditions hold together.

        `split` is `train`, or `validation` for a run that only validates; `task` is a task's id; `failed` are those that failed
        or that the judge failed on; `min_reward` is the least reward; `grep` is a text in a line of the transcript; `lowest` and
        `highest` are how many of those with a reward, in its order. Without them the order is that of the steps, siblings side
        by side.
        """
        from astuner.runs.inspection.selection import Selection

        selection = Selection(
            step=step, task=task, failed=failed, min_reward=min_reward, grep=grep, lowest=lowest, highest=highest
        )
        return self.select(self.index_episodes(split, step), selection)

    def select(self, index: EpisodeIndex, selection: Selection) -> Iterator[Episode]:
        """Yield the selected episodes of an index; raises `UsageError` at once for a step or a task that is not stored."""
        from astuner.runs.inspection.selection import select_episodes

        return self._report_lost(index, select_episodes(index, selection))

    def _report_lost(self, index: EpisodeIndex, episodes: Iterator[Episode]) -> Iterator[Episode]:
        yield from episodes
        if index.lost:
            self._warn(f"{index.path}: {_count(index.lost, 'episode')} damaged and left out: {', '.join(index.lost[:3])}")

    def index_episodes(self, split: Split | None = None, step: int | None = None) -> EpisodeIndex:
        """Return the index of the episodes of a split; without one, of those that there are: `train` first.

        With a step, of those alone.
        """
        from astuner.runs.store.episode_index import EpisodeIndex
        from astuner.runs.store.episode_store import SPLITS

        file = self.directory.episodes / f"{split or next(filter(self.has_episodes, SPLITS), SPLITS[0])}.jsonl"
        index = EpisodeIndex(file, step)
        if index.damaged:
            self._warn(
                f"{file}:{index.damaged[0]}: {_count(index.damaged, 'line')} damaged and left out: each is an episode, or the "
                "verdicts of a group"
            )
        return index

    def find_tokenizer(self) -> StoredTokenizer | None:
        """Return the tokenizer of the run's model, if it is still at hand."""
        from astuner.runs.inspection.stored_tokenizer import find_tokenizer

        return find_tokenizer(self.directory, self.config)

    def has_episodes(self, split: Split) -> bool:
        """Whether any episode of a split was stored."""
        file = self.directory.episodes / f"{split}.jsonl"
        return file.is_file() and file.stat().st_size > 0

    def _read(self, read: Callable[[], Any]) -> Any:
        """Return what is read; None, and a message, if it is damaged."""
        try:
            return read()
        except UsageError as error:
            self._warn(str(error))
            return None

    def _warn(self, text: str) -> None:
        """Report once what may be met several times."""
        if text not in self._reported:
            self._reported.add(text)
            self._report(text)


def _count(things: list[Any] | Any, what: str) -> str:
    return f"1 {what} is" if len(things) == 1 else f"{len(things)} {what}s are"
