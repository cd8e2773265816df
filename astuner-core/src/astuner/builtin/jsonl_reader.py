"""Tasks from a local file of JSON rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from astuner.builtin.json_rows import json_rows
from astuner.builtin.task_rows import Row, tasks_of
from astuner.config.sections import DatasetFileSection
from astuner.errors import DataError
from astuner.protocols import RunInfo
from astuner.schema import Split, Task

_OTHER_FORMATS = {".csv", ".tsv", ".parquet", ".arrow", ".xlsx", ".gz", ".zst", ".zip"}


class JsonlReader:
    """Streams the rows of `.jsonl` files (or of `.json` files that hold one list), a task per row, in file order."""

    Options = DatasetFileSection

    def __init__(self, options: DatasetFileSection, config_dir: Path) -> None:
        self._options = options
        self._config_dir = config_dir

    @classmethod
    def from_run(cls, options: DatasetFileSection, run_info: RunInfo) -> JsonlReader:
        """Make the reader; paths start at the configuration's directory."""
        return cls(options, run_info.config_dir)

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split; nothing when it is not configured.

        Raises `DataError`: here for a file that cannot be opened, and while iterating for a row that is not right.
        """
        section = "training" if split == "train" else "validation"
        source = self._options.training if split == "train" else self._options.validation
        if source is None:
            return iter(())
        path = self._found(source.file_path, f"astuner.task_reader.dataset_file.{section}.file_path")
        return tasks_of(partial(_rows, path), source.columns, source.limit)

    def _found(self, given: str, key: str) -> Path:
        path = (self._config_dir / Path(given).expanduser()).resolve()
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "does not exist"
            raise DataError(f"{key}: {path} {what} (given as '{given}'; relative paths start at {self._config_dir})")
        if not os.access(path, os.R_OK):
            raise DataError(f"{key}: {path} cannot be read by this user; change its permissions")
        if path.suffix.lower() in _OTHER_FORMATS:
            raise DataError(
                f"{key}: {path} is a {path.suffix} file, and this reader takes JSON lines (.jsonl) or a JSON list (.json); "
                "convert it, or read csv and parquet files with astuner-readers: pip install 'astuner-readers[hf]' and "
                "task_reader.type: huggingface_dat_repo"
            )
        return path


def _rows(path: Path) -> Iterator[Row]:
    empty = True
    for row in json_rows(path):
        empty = False
        yield row
    if empty:
        raise DataError(f"{path}: the file holds no rows")
