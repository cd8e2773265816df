"""Rows of a parquet file, decoded a few at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from astuner.contract.errors import DataError, PluginError
from astuner.shared.install_hints import install_command
from astuner.shared.tabular.cell_values import convert_to_json
from astuner.shared.tabular.task_rows import Row

_ROWS_AT_ONCE = 1024
_BUFFER_BYTES = 1 << 20


def read_parquet_rows(path: Path) -> Iterator[Row]:
    """Yield the rows, counted from 1; needs pyarrow, the extra `parquet`."""
    parquet = import_pyarrow()
    from pyarrow import ArrowException

    try:
        # A buffered stream instead of whole column chunks: a file may be one row group, larger than memory.
        with parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False, memory_map=False) as file:
            _check_columns(path, file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, use_threads=False):
                for values in _decode_rows(batch, path, number):
                    number += 1
                    place = f"{path}: row {number}"
                    yield Row(place, {name: convert_to_json(value, name, place) for name, value in values.items()})
    except (ArrowException, OSError) as error:
        raise DataError(f"{path}: broken parquet file: {error}; it may be cut off: write or copy it again") from error


def import_pyarrow() -> Any:
    """Return pyarrow's reader of parquet files; raises `PluginError` if it is not installed."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise PluginError(
            f"reader 'dataset_file' reads parquet files with pyarrow ({error}): {install_command('astuner-core[parquet]')}"
        ) from error
    return pyarrow.parquet


def _decode_rows(batch: Any, path: Path, before: int) -> Iterable[dict[str, Any]]:
    """Return the rows of a batch as Python values; only if that fails, find and report the bad cell."""
    try:
        return batch.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
    except (ValueError, OverflowError):
        return _decode_one_by_one(batch, path, before)


def _decode_one_by_one(batch: Any, path: Path, before: int) -> Iterator[dict[str, Any]]:
    for row in range(batch.num_rows):
        yield {
            name: _decode_cell(batch.column(name)[row], f"{path}: row {before + row + 1}: column '{name}'")
            for name in batch.schema.names
        }


def _decode_cell(cell: Any, where: str) -> Any:
    try:
        return cell.as_py()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} of the text is not UTF-8; write the column as UTF-8, or remove it from the data set"
        ) from error
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{where} holds a {cell.type} without a Python equivalent ({error}); write it as text, or remove it from the data set"
        ) from error


def _check_columns(path: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise DataError(f"{path}: two columns are named '{name}'; rename or remove one of them")
