"""The directory of a replay: a run directory with the episodes of another run and new verdicts on them."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from astuner.contract.errors import Interrupted, UsageError
from astuner.runs.inspection.run import Run
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.redaction import redact_text
from astuner.settings.config.secrets import redact_command
from astuner.settings.config.show import sign_variables, to_yaml
from astuner_tools.replays.scoring_choice import ScoringChoice

ORIGIN = "replay_of"
"""The key of `run.json` that names the run whose episodes were scored again."""


def choose_directory(run: Run, name: str, out: Path | None) -> Path:
    """Return where the replay goes: `replays/NAME` in the run's directory, or `out`.

    Raises `UsageError` for a directory with something else than an earlier replay of the same run.
    """
    path = (run.path / "replays" / name if out is None else out).absolute()
    if path.is_dir() and any(path.iterdir()) and RunDirectory(path).run.get(ORIGIN) != str(run.path.resolve()):
        raise UsageError(f"{path}: holds something else than a replay of {run.path}; choose another directory with --out")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path}: is not a directory; choose another one with --out")
    return path


@contextmanager
def open_replay(path: Path, run: Run, choice: ScoringChoice) -> Iterator[RunDirectory]:
    """Begin a replay in a directory, in place of an earlier one, and record how it ended."""
    directory = RunDirectory(path)
    directory.open()
    try:
        for leftover in (directory.state_file, directory.metrics, *directory.episodes.glob("*.jsonl")):
            leftover.unlink(missing_ok=True)
        _describe(directory, run, choice)
        directory.write_state(status="running")
        try:
            yield directory
        except (Interrupted, KeyboardInterrupt):
            directory.write_state(status="interrupted")
            raise
        except BaseException as error:
            reason = choice.loaded.secrets.hide(f"{type(error).__name__}: {error}")
            directory.write_state(status="failed", reason=reason)
            raise
        directory.write_state(status="finished")
    finally:
        directory.close()


def _describe(directory: RunDirectory, run: Run, choice: ScoringChoice) -> None:
    loaded = choice.loaded
    directory.write_run(
        {
            "backbone": run.facts.get("backbone"),
            "experiment_name": loaded.config.experiment_name,
            ORIGIN: str(run.path.resolve()),
            "versions": {"astuner-core": version("astuner-core"), "python": platform.python_version()},
            "command": list(map(loaded.secrets.hide, redact_command(sys.argv))),
        }
    )
    directory.write_config(
        given=redact_text(loaded.text),
        resolved=to_yaml(loaded),
        native={},
        environment=sign_variables(loaded),
        relative_to=loaded.directory,
    )
