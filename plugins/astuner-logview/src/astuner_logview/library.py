"""The runs below the directories that the viewer was started with."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field

from astuner.runs.inspection import Run, list_run_paths
from astuner_logview.episode_cache import EpisodeCache
from astuner_logview.errors import Missing
from astuner_logview.index.indexer import Indexer
from astuner_logview.index.reader import IndexReader
from astuner_logview.run_ids import make_run_id
from astuner_logview.tokens.streams import StreamCache
from astuner_logview.trainer_values import TrainerRecords

FRESH_S = 1.0
"""For this long a list of runs is not made again."""


@define(eq=False, kw_only=True)
class LibraryRun:
    """A run with the id that addresses use: it is stable, and is not a path."""

    id: str
    path: Path
    """Real, without links."""
    run: Run
    problems: list[str]
    """What could not be read of it so far."""
    index: IndexReader

    @classmethod
    def open(cls, path: Path, real: Path) -> LibraryRun:
        """Open a run that was found at a path."""
        problems: list[str] = []
        run = Run(path, problems.append)
        return cls(id=make_run_id(path, real), path=real, run=run, problems=problems, index=IndexReader(real, problems))


@define(eq=False)
class Library:
    """Finds runs and remembers them. Threads may share it."""

    roots: Sequence[Path]
    indexer: Indexer = field(init=False)
    """Is started and stopped by the server; without it, what is indexed already is shown."""
    episodes: EpisodeCache = field(factory=EpisodeCache, init=False)
    streams: StreamCache = field(factory=StreamCache, init=False)
    records: TrainerRecords = field(factory=TrainerRecords, init=False)
    problems: list[str] = field(factory=list, init=False)
    """What could not be searched at the last look."""
    _runs: dict[str, LibraryRun] = field(factory=dict, init=False)
    _looked_at: float = field(default=float("-inf"), init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)

    def __attrs_post_init__(self) -> None:
        """Make the indexer of these runs."""
        self.indexer = Indexer(lambda: [one.path for one in self.list_runs()], self._add_problem)

    def list_runs(self) -> Sequence[LibraryRun]:
        """Return the runs that there are now; a replay follows the run that it belongs to."""
        with self._lock:
            if time.monotonic() > self._looked_at + FRESH_S:
                self._search()
                self._looked_at = time.monotonic()
            return list(self._runs.values())

    def find(self, identity: str | None) -> LibraryRun:
        """Return a run by its id; raises `Missing` if there is none."""
        with self._lock:
            found = self._runs.get(identity or "")
            if found is None:
                self.list_runs()
                found = self._runs.get(identity or "")
        if found is None:
            raise Missing(f"there is no run '{(identity or '')[:100]}'", "it may have been moved or deleted: look at the list")
        self.indexer.want(found.path)
        return found

    def list_replays(self, run: LibraryRun) -> Sequence[LibraryRun]:
        """Return the replays in a run's directory, and others that name it."""
        return [one for one in self.list_runs() if one is not run and find_origin(one) == run.path]

    def _add_problem(self, path: Path, text: str) -> None:
        with self._lock:
            for run in self._runs.values():
                if run.path == path and text not in run.problems:
                    kept = (one for one in run.problems if not one.startswith("its episodes cannot be indexed"))
                    run.problems[:] = [*kept, *filter(None, [text])]

    def _search(self) -> None:
        self.problems, known = [], {one.path: one for one in self._runs.values()}
        found: dict[Path, LibraryRun] = {}
        for root in self.roots:
            if not root.is_dir():
                self.problems.append(f"{root}: is not a directory")
                continue
            try:
                runs = list_run_paths(root, self.problems.append)
                paths = [inner for path in runs for inner in (path, *list_run_paths(path / "replays"))]
            except OSError as error:
                self.problems.append(f"{root}: cannot be searched: {error.strerror or error}")
                continue
            for path in paths:
                try:
                    real = path.resolve()
                    found[real] = known.get(real) or found.get(real) or LibraryRun.open(path, real)
                except Exception as error:  # noqa: BLE001 - one foreign directory must not hide the others
                    self.problems.append(f"{path}: cannot be opened as a run: {error}")
        self._runs = {one.id: one for one in found.values()}


def find_origin(run: LibraryRun) -> Path | None:
    """Return the run whose episodes a replay has judged again; None for a run that was played."""
    origin = run.run.facts.get("replay_of")
    if not isinstance(origin, str):
        return None
    # A replay that was moved with its run is still its replay.
    if run.path.parent.name == "replays" and (run.path.parent.parent / "episodes").is_dir():
        return run.path.parent.parent
    return Path(origin)
