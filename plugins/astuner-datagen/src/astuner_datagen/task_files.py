"""Generated tasks on disk: a file for each split and key, with a report next to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from astuner.contract.errors import DataError, RunFailed
from astuner.contract.schema import Split, Task
from astuner.runs.store.atomic import sync_directory
from astuner.shared.tabular import make_tasks, read_json_rows


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content, so that a reader, or a crash, sees the old one or the new; makes its folder."""
    # With the process id, since two runs of one configuration may write at once.
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        _remove(beside)
        raise RunFailed(
            f"{path}: {error.strerror or error}. Answers that were paid for are kept: mend it (free space, permissions), then "
            "start again"
        ) from error
    except BaseException:
        _remove(beside)
        raise


def _remove(part: Path) -> None:
    # Without its folder there is none; the first error is the one to report.
    with suppress(OSError):
        part.unlink(missing_ok=True)


def as_lines(tasks: Iterable[Task]) -> str:
    """Return tasks as JSON lines that the reader `dataset_file` reads as the same tasks."""
    return "".join(as_json_text(_row(task)) + "\n" for task in tasks)


def as_json_text(value: Any, indent: int | None = None) -> str:
    """Return a JSON text that a file can hold: a sample may have lone surrogates, which JSON can spell but UTF-8 cannot."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def _row(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {"task_id": task.task_id, "main_query": task.main_query}
    row |= {"env_type": task.env_type} if task.env_type != "no_env" else {}
    row |= {"init_messages": list(task.init_messages)} if task.init_messages else {}
    return {**row, "metadata": dict(task.metadata)}


class SavedTasks:
    """The tasks of one split under one key."""

    def __init__(self, directory: Path, split: Split, key: str) -> None:
        """Touches no file yet."""
        self.tasks_file = directory / f"{split}-{key}.jsonl"
        self.report_file = directory / f"{split}-{key}.report.json"

    @property
    def report(self) -> Mapping[str, Any] | None:
        """The report on the tasks; None if none were generated."""
        if not (self.report_file.is_file() and self.tasks_file.is_file()):
            return None
        try:
            found: Mapping[str, Any] = json.loads(self.report_file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{self.report_file}: cannot be read: {error}; remove it, and the tasks are made again") from error
        return found

    def write(self, tasks: Iterable[Task], report: Mapping[str, Any]) -> None:
        """Write both files; the report last, since it marks the tasks as complete."""
        write_atomically(self.tasks_file, as_lines(tasks))
        write_atomically(self.report_file, as_json_text(report, indent=2) + "\n")

    def tasks(self) -> Iterable[Task]:
        """Yield the tasks in their order, one line at a time."""
        return make_tasks(partial(read_json_rows, self.tasks_file))
