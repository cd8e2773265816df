"""Rows of a parquet file, decoded a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astuner.builtin.cell_values import as_json_value
from astuner.builtin.task_rows import Row
from astuner.errors import DataError, PluginError

_ROWS_AT_ONCE = 1024
_BUFFER_BYTES = 1 << 20


def parquet_rows(path: Path) -> Iterator[Row]:
    """Yield the rows, which are counted from 1; needs pyarrow, the extra `parquet`."""
    parquet = _parquet()
    from pyarrow import ArrowException

    try:
        # A buffered stream instead of whole column chunks: a file may be one row group, larger than memory.
        with parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False, memory_map=False) as file:
            _check_columns(path, file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, use_threads=False):
                for values in batch.to_pylist():
                    number += 1
                    place = f"{path}: row {number}"
                    yield Row(place, {name: as_json_value(value, name, place) for name, value in values.items()})
    except (ArrowException, OSError) as error:
        raise DataError(f"{path}: broken parquet file: {error}; it may be cut off: write or copy it again") from error


def check_pyarrow() -> None:
    """Raise `PluginError` where pyarrow is not installed."""
    _parquet()


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise PluginError(
            f"reader 'dataset_file' reads parquet files with pyarrow ({error}): pip install 'astuner-core[parquet]'"
        ) from error
    return pyarrow.parquet


def _check_columns(path: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise DataError(f"{path}: two columns are named '{name}'; rename or remove one of them")
