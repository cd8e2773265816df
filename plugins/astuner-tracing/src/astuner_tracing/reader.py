"""The reader `tracing`: tasks from the questions to a deployed agent, and its users' feedback."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import cattrs

from astuner.contract.protocols import ReaderTraits, RunInfo
from astuner.contract.schema import Split, Task
from astuner.shared.tabular import make_tasks, read_json_rows
from astuner_tracing.counts import Tally
from astuner_tracing.filters.llm_evaluate import LlmAccess
from astuner_tracing.importing import Destinations, import_tasks, list_cautions
from astuner_tracing.options import TracingOptions

Say = Callable[[str, Literal["info", "warning"]], None]


class TracingReader:
    """Imports the traces once, into the run directory, and reads the tasks from there.

    New traces arrive all the time; a resumed run has the tasks that it started with.
    """

    traits = ReaderTraits(reports_progress=True)

    Options = TracingOptions

    def __init__(self, options: TracingOptions, config_dir: Path, directory: Path, *, is_run: bool = True) -> None:
        """`directory` is the run's. Without `is_run` the tasks are only shown: nothing is stored, and no LLM asked."""
        self._options, self._config_dir, self._is_run = options, config_dir, is_run
        # Next to the readings: verdicts are keyed by everything that they depend on, so other options can share them.
        self._verdicts = directory / "tracing" / "verdicts.sqlite"
        self._home = directory / "tracing" / _digest(options)
        if not is_run and not self._counts.is_file():
            self._home = Path(tempfile.mkdtemp(prefix="astuner-tracing-"))
            weakref.finalize(self, shutil.rmtree, self._home, ignore_errors=True)
        self._say: Say = _to_stderr
        self._imported = False

    @classmethod
    def from_run(cls, options: TracingOptions, run_info: RunInfo) -> TracingReader:
        """Make the reader; paths start at the configuration's directory."""
        return cls(options, run_info.config_dir, run_info.directory, is_run=run_info.attempt > 0)

    def report_to(self, say: Say) -> None:
        """Report through this what was read, instead of on stderr; called before the first reading."""
        self._say = say

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split in order of time; nothing for validation without a rule for it."""
        self._import_once()
        path = self._home / f"{split}.jsonl"
        if not path.stat().st_size:
            return
        yield from make_tasks(partial(read_json_rows, path))

    @property
    def _counts(self) -> Path:
        """Written last, so it marks the reading as complete."""
        return self._home / "counts.json"

    def _import_once(self) -> None:
        if self._imported:
            return
        self._imported = True
        if self._counts.is_file():
            self._say(f"tracing: the tasks are those of an earlier reading, in {self._home}; remove it to read again", "info")
            return
        self._home.mkdir(parents=True, exist_ok=True)
        options = self._options
        asking = LlmAccess(
            model=options.alien_llm_model,
            max_tokens=options.alien_llm_response_length,
            config_dir=self._config_dir,
            environ=os.environ,
            say=lambda text: self._say(text, "info"),
            cache=self._verdicts if self._is_run else None,
            allowed=self._is_run,
        )
        tally = import_tasks(options, asking, self._destinations())
        self._counts.write_text(json.dumps(tally.as_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        self._tell(tally)

    def _destinations(self) -> Destinations:
        further = (self._options.train_output_path, self._options.validation_output_path)
        train, validation = (
            (self._home / f"{split}.jsonl", *([self._config_dir / Path(path).expanduser()] if path and self._is_run else []))
            for split, path in zip(("train", "validation"), further, strict=True)
        )
        return Destinations(train=train, validation=validation)

    def _tell(self, tally: Tally) -> None:
        self._say(f"tracing: {tally.sentence()}", "warning" if tally.broken or tally.unjudged else "info")
        for text in list_cautions(self._options, tally):
            self._say(text, "warning")


def _digest(options: TracingOptions) -> str:
    """Return 12 hex digits of the options: other options are another reading."""
    text = json.dumps(cattrs.unstructure(options), sort_keys=True, default=_as_json)
    return blake2b(text.encode(), digest_size=6).hexdigest()


def _as_json(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else str(value)


def _to_stderr(text: str, level: Literal["info", "warning"]) -> None:
    print(f"{level}: {text}", file=sys.stderr)
