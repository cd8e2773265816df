"""The extension: wraps the judges of a run, and reports at its end what was saved."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner import Judge, hookimpl
from astuner.contract.protocols import Candidate, RunInfo
from astuner_cached_judge.judge import CachedJudge
from astuner_cached_judge.keys import judge_key
from astuner_cached_judge.store import VerdictStore


class CachedJudgeHooks:
    """Keeps the verdicts of judges in a file, for this run and the next ones."""

    @frozen(kw_only=True)
    class Options:
        """What a YAML sets in `plugins.options.cached_judge`."""

        path: str | None = None
        """The file (SQLite), relative to the YAML; without it nothing is kept."""
        judges: tuple[str, ...] = ()
        """The names of the judges whose verdicts are kept; empty is all."""
        pointwise: tuple[str, ...] = ()
        """The names of judges that score each episode separately: their verdicts are kept by episode. All others may compare
        siblings, so theirs are kept by group."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or self.Options()
        self._said: set[str] = set()

    @hookimpl(wrapper=True)
    def astuner_make_judge(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Generator[None, Judge, Judge]:
        """Return a judge that remembers its verdicts. Runs in each process that judges episodes."""
        made = yield
        if self._options.path is None or not self._is_chosen(candidate):
            return made
        store = self._store(run_info)
        store.count(_run(run_info), candidate.name, found=0, asked=0)
        return CachedJudge(
            made,
            name=candidate.name,
            key=judge_key(candidate, options),
            store=store,
            run=_run(run_info),
            pointwise=_is_named(candidate, self._options.pointwise),
            say=self._say_once,
        )

    @hookimpl
    def astuner_run_started(self, run_info: RunInfo) -> None:
        """Start the counts of this run at zero. Runs in the driver, before any judge is made."""
        if self._options.path is not None:
            self._store(run_info).forget_counts(_run(run_info))

    @hookimpl
    def astuner_run_finished(self, run_info: RunInfo) -> None:
        """Report how many verdicts came from the file. Runs in the driver; the file holds the counts of every process."""
        if self._options.path is None:
            return
        counts = self._store(run_info).counts(_run(run_info))
        for count in counts:
            self._say(f"{count.found} of {count.found + count.asked} verdicts of '{count.judge}' came from {self._options.path}")
        if not counts:
            self._say(
                f"no judge of this run is called {' or '.join(self._options.judges)}"
                if self._options.judges
                else "no judge was made"
            )

    def _is_chosen(self, candidate: Candidate) -> bool:
        return not self._options.judges or _is_named(candidate, self._options.judges)

    def _store(self, run_info: RunInfo) -> VerdictStore:
        return VerdictStore(run_info.config_dir / Path(self._options.path or "").expanduser())

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _say(self, text: str) -> None:
        print(f"cached_judge: {text}", file=sys.stderr)


def _is_named(candidate: Candidate, names: tuple[str, ...]) -> bool:
    return candidate.name in names or f"{candidate.dist}/{candidate.name}" in names


def _run(run_info: RunInfo) -> str:
    return f"{run_info.directory.resolve()} {run_info.attempt}"
