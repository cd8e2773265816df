"""Tasks from a local file of rows: JSON lines or a JSON list, csv, tsv or parquet, by the ending of its name."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import file_digest
from pathlib import Path

from attrs import asdict, evolve

from astuner.contract.errors import DataError
from astuner.contract.protocols import ReaderTraits, RunInfo
from astuner.contract.schema import Split, Task
from astuner.settings.config.env_variables import BY_TASK, NO_ENVIRONMENT
from astuner.settings.config.sections import DatasetFileSection, FileSplit
from astuner.shared.tabular.json_rows import holds_lines, read_json_row, read_json_rows
from astuner.shared.tabular.task_rows import Row, make_placed_task, make_tasks

_PACKED = {".gz": "gunzip -k", ".bz2": "bunzip2 -k", ".xz": "unxz -k", ".zst": "unzstd", ".zip": "unzip"}
_PACKED_MARKS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz", b"\x28\xb5\x2f\xfd": ".zst", b"PK\x03\x04": ".zip"}
_PARQUET_MARK = b"PAR1"
_OTHER_FORMATS = {".arrow", ".feather", ".xlsx", ".xls"}
_FORMATS = "JSON lines (.jsonl), a JSON list (.json), .csv, .tsv and .parquet"


class DatasetFileReader:
    """Streams the rows of a file, a task per row, in file order; the same rows give the same tasks and ids in each format."""

    traits = ReaderTraits(names_files=True, lists_files=True, finds_places=True)

    Options = DatasetFileSection

    def __init__(self, options: DatasetFileSection, config_dir: Path, *, default_query: str | None = None) -> None:
        """`default_query` is that of splits without one: the empty text where an environment asks."""
        splits: dict[Split, FileSplit | None] = {"train": options.training, "validation": options.validation}
        self._splits = {
            split: evolve(source, default_query=default_query) if source.default_query is None else source
            for split, source in splits.items()
            if source is not None
        }
        self._config_dir = config_dir
        self._digests: dict[Path, tuple[tuple[int, ...], str | None]] = {}

    @classmethod
    def from_run(cls, options: DatasetFileSection, run_info: RunInfo) -> DatasetFileReader:
        """Make the reader; paths start at the configuration's directory."""
        played = run_info.config.environment.environment_type not in (BY_TASK, NO_ENVIRONMENT)
        return cls(options, run_info.config_dir, default_query="" if played else None)

    @classmethod
    def name_files(cls, options: DatasetFileSection) -> Mapping[str, str]:
        """Return the files of both splits, as written."""
        splits = {"training": options.training, "validation": options.validation}
        return {f"{name}.file_path": split.file_path for name, split in splits.items() if split is not None}

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split; nothing when it is not configured.

        Raises `DataError`: immediately for a file that cannot be opened, and while iterating for an invalid row. Raises
        `PluginError` immediately for a parquet file if pyarrow is not installed.
        """
        return self.read_places(split, None)

    def read_places(self, split: Split, places: array[int] | None) -> Iterator[Task]:
        """Yield the tasks as `read` does, each after its place."""
        if (found := self._find_split(split)) is None:
            return iter(())
        path, source = found
        if path.suffix.lower() == ".parquet":
            from astuner.shared.tabular.parquet_rows import import_pyarrow

            import_pyarrow()
        return make_tasks(
            partial(_read_rows, path, source),
            source.columns,
            source.limit,
            default_query=source.default_query,
            keep_repeats=source.keep_repeats,
            places=places,
        )

    def read_at(self, split: Split, number: int, place: int) -> Task:
        """Return a task of a file of JSON lines by its place."""
        if (found := self._find_split(split)) is None:
            raise DataError(f"there are no {split} tasks")
        path, source = found
        [row] = _convert_cells(iter([read_json_row(path, place >> 1)]), source)
        return make_placed_task(row, number, place, source.columns, source.default_query)

    def identify_tasks(self, split: Split) -> str | None:
        """Return a digest of a file of JSON lines and of the options; None for other files, which are read in order."""
        if (found := self._find_split(split)) is None:
            return None
        path, source = found
        stat = path.stat()
        state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if (known := self._digests.get(path)) is None or known[0] != state:
            known = self._digests[path] = state, _digest_lines(path)
        return None if known[1] is None else json.dumps(["dataset_file", known[1], asdict(source) | {"file_path": ""}])

    def _find_split(self, split: Split) -> tuple[Path, FileSplit] | None:
        if (source := self._splits.get(split)) is None:
            return None
        section = "training" if split == "train" else "validation"
        return self._find_file(source.file_path, f"astuner.task_reader.dataset_file.{section}.file_path"), source

    def list_files(self) -> Iterator[Path]:
        """Yield the files of both splits."""
        return ((self._config_dir / Path(source.file_path).expanduser()).resolve() for source in self._splits.values())

    def _find_file(self, given: str, key: str) -> Path:
        path = (self._config_dir / Path(given).expanduser()).resolve()
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "does not exist"
            raise DataError(f"{key}: {path} {what} (given as '{given}'; relative paths start at {self._config_dir})")
        if not os.access(path, os.R_OK):
            raise DataError(f"{key}: {path} cannot be read by this user; change its permissions")
        _check_format(path, key)
        return path


def _check_format(path: Path, key: str) -> None:
    """Raise `DataError` for a file whose format does not match its name or is not supported by this reader."""
    suffix = path.suffix.lower()
    with path.open("rb") as file:
        head = file.read(8)
    if suffix in _OTHER_FORMATS:
        raise DataError(
            f"{key}: {path} is a {suffix} file, but this reader takes {_FORMATS}: save it as one of these, "
            "or name a reader that takes it"
        )
    packed = next((kind for mark, kind in _PACKED_MARKS.items() if head.startswith(mark)), suffix if suffix in _PACKED else None)
    if packed is not None:
        raise DataError(
            f"{key}: {path} is compressed ({packed}), so that it cannot be streamed; unpack it: {_PACKED[packed]} {path.name}"
        )
    if head and head.startswith(_PARQUET_MARK) != (suffix == ".parquet"):
        is_one = "a parquet file, which its name does not say" if head.startswith(_PARQUET_MARK) else "no parquet file"
        raise DataError(f"{key}: {path} is {is_one}; formats go by the ending: rename the file")


def _digest_lines(path: Path) -> str | None:
    """Return a digest of the whole content of a file of JSON lines; None for another one."""
    if path.suffix.lower() in (".csv", ".tsv", ".parquet"):
        return None
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest() if holds_lines(path, file) else None


def _convert_cells(rows: Iterator[Row], source: FileSplit) -> Iterator[Row]:
    if not source.json_columns:
        return rows
    from astuner.shared.tabular.cell_values import parse_json_columns

    return parse_json_columns(rows, source.json_columns)


def _read_rows(path: Path, source: FileSplit) -> Iterator[Row]:
    empty = True
    for row in _convert_cells(_open_rows(path), source):
        empty = False
        yield row
    if empty:
        raise DataError(f"{path}: the file holds no rows")


def _open_rows(path: Path) -> Iterator[Row]:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        from astuner.shared.tabular.csv_rows import SEPARATORS, read_csv_rows

        return read_csv_rows(path, SEPARATORS[suffix])
    if suffix == ".parquet":
        from astuner.shared.tabular.parquet_rows import read_parquet_rows

        return read_parquet_rows(path)
    return read_json_rows(path)
