"""Rubrics are learnt once: the first process that needs them learns, the others wait and read the file."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attrs import frozen

from astuner.contract.errors import DataError, PluginError
from astuner.contract.protocols import RunInfo
from astuner.shared.clients import Budget, LLMBudgetSpent, LLMFailed, run_blocking, wait_until
from astuner_judges.rubrics.learning import Say
from astuner_judges.rubrics.options import KEY, WANTED_BY, RubricsOptions
from astuner_judges.rubrics.provenance import fingerprint, learn_file
from astuner_judges.rubrics.samples import read_samples
from astuner_judges.rubrics.sharing import check_not_shared
from astuner_judges.rubrics.storage import RubricFile, read_rubrics, write_rubrics


@frozen(kw_only=True)
class SavedRubrics:
    """Rubrics, and their file."""

    path: Path
    held: RubricFile
    learnt_now: bool


def say_to_stderr(text: str) -> None:
    """Log the progress of learning."""
    print(f"{WANTED_BY}: {text}", file=sys.stderr, flush=True)


def place_of(options: RubricsOptions, run_info: RunInfo) -> Path:
    """Return the file of a run's rubrics."""
    if options.rubrics_file is not None:
        return (run_info.config_dir / Path(options.rubrics_file).expanduser()).resolve()
    return run_info.directory / "rubrics" / f"{options.grader_name}.yaml"


def load_or_learn(
    options: RubricsOptions,
    run_info: RunInfo,
    budget: Budget | None = None,
    say: Say = say_to_stderr,
    *,
    again: bool = False,
    by_hand: bool = False,
) -> SavedRubrics:
    """Return the rubrics of the file; learn them if it does not exist, or always with `again`.

    A file that `rubrics_file` names is used as it is. One in the run directory is learnt again if options or examples have
    changed, unless it was edited by hand, which raises `DataError`. A judge that is tried without a run (attempt 0) raises
    `DataError` instead of writing there, except with `by_hand`.
    """
    check_not_shared(options, run_info)
    path = place_of(options, run_info)
    # An existing file is not locked: this user may not be allowed to write there.
    held = None if again else _load(path, options)
    if options.rubrics_file is None and run_info.attempt < 1 and not by_hand:
        if held is None or not _is_current(held, path, options, run_info):
            why = "there are no rubrics yet" if held is None else "its rubrics were learnt with other options or examples"
            raise DataError(
                f"{KEY}: {path}: {why}, and a judge that is only tried writes nothing into a run directory. Learn them first by "
                "`astuner judge learn`, or name a file for them by rubrics_file"
            )
    elif held is None or options.rubrics_file is None:
        with _hold_lock(path, say):
            # Another process may have learnt them while this one waited.
            held = None if again else _load(path, options)
            if held is None or not _is_current(held, path, options, run_info):
                held = _learn(options, run_info, path, budget, say)
                write_rubrics(path, held)
                say(f"{len(held.themes)} themes are in {path}")
                return SavedRubrics(path=path, held=held, learnt_now=True)
    say(f"{len(held.themes)} themes of {path}{', edited by hand since they were learnt' if held.is_edited else ''}")
    return SavedRubrics(path=path, held=held, learnt_now=False)


def _load(path: Path, options: RubricsOptions) -> RubricFile | None:
    if not path.exists():
        return None
    held = read_rubrics(path, f"{KEY}.rubrics_file")
    if held.grader_mode not in (None, options.grader_mode) and options.rubrics_file is not None:
        raise DataError(
            f"{KEY}: {path}: its rubrics are for grader_mode: {held.grader_mode}, and the YAML says {options.grader_mode}; "
            "change one of the two, or name another rubrics_file"
        )
    return held


def _is_current(held: RubricFile, path: Path, options: RubricsOptions, run_info: RunInfo) -> bool:
    """Whether the rubrics of the run directory belong to these options and examples, or were written by hand."""
    if options.rubrics_file is not None or held.learnt is None:
        return True
    if held.learnt.fingerprint == fingerprint(options, read_samples(options, run_info), run_info.seed):
        return True
    if held.is_edited:
        raise DataError(
            f"{KEY}: {path}: the rubrics were edited by hand, after they had been learnt with other options or examples. "
            "Name the file by rubrics_file to grade by it as it is, or delete it to learn again"
        )
    return False


def _learn(options: RubricsOptions, run_info: RunInfo, path: Path, budget: Budget | None, say: Say) -> RubricFile:
    samples = read_samples(options, run_info)
    if samples.shared:
        say(f"{samples.shared} samples of the validation split are among those learnt from; they check nothing and are left out")
    if samples.unordered:
        say(f"{samples.unordered} samples of the validation split have no two answers of which one is better, and are left out")
    cache = path.with_name(f"{path.stem}.answers.sqlite")
    client = options.client(run_info.config_dir, cache=cache, budget=budget)
    say(f"learning from {len(samples.learning)} labelled examples with '{client.model}'")
    try:
        return run_blocking(learn_file(options, run_info, samples, client, say))
    except (LLMFailed, LLMBudgetSpent) as failure:
        where = options.llm.cache or cache
        raise PluginError(
            f"{KEY}: {failure}. What was answered is in {where}: it is not paid twice; remove it to ask again"
        ) from failure
    finally:
        client.close()


@contextmanager
def _hold_lock(path: Path, say: Say) -> Iterator[None]:
    """Hold a lock that the system releases when this process ends, however it ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".{path.name}.lock").open("a")
    except OSError as error:
        why = error.strerror or str(error)
        raise DataError(f"{KEY}: {path}: rubrics cannot be kept there: {why}; name another rubrics_file") from error
    with lock:
        if not _try_lock(lock):
            say(f"waits for another process that learns the rubrics of {path}")
            wait_until(lambda moment_s: _try_lock(lock, after_s=moment_s))
        yield


def _try_lock(lock: IO[str], after_s: float = 0.0) -> bool:
    # Polled: a thread that blocks in `flock` cannot be interrupted by a loop that handles Ctrl-C.
    time.sleep(after_s)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
