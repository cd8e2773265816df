"""Rows of a csv or tsv file, read as a stream: column names in the first line, then rows of text cells."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from astuner.contract.errors import DataError
from astuner.shared.tabular.task_rows import Row
from astuner.shared.tabular.text_lines import HEAD_BYTES, check_encoding, decode_line

if TYPE_CHECKING:
    from _csv import Reader

SEPARATORS = {".csv": ",", ".tsv": "\t"}
_NAMES = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}

_LONGEST_CELL = 1 << 26
"""Large enough for a whole document; stops an unclosed quote before memory runs out."""


def read_csv_rows(path: Path, separator: str) -> Iterator[Row]:
    """Yield a row for each record with the line on which it begins; cells are text, even if they look like numbers.

    Cells are quoted by `"`, and may then hold the separator, line ends and, doubled, the quote itself. Empty lines are
    skipped, except inside a quoted cell.
    """
    # The limit is global to the process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    with path.open("rb") as file:
        check_encoding(path, file.read(HEAD_BYTES))
        file.seek(0)
        lines = (decode_line(path, number, raw) for number, raw in enumerate(file, 1))
        records = _read_records(path, csv.reader(lines, delimiter=separator, strict=True))
        line, columns = next(records, (1, []))
        _check_columns(f"{path}:{line}", columns, separator)
        for line, cells in records:
            if len(cells) != len(columns):
                raise _make_ragged_error(f"{path}:{line}", cells, columns, separator)
            yield Row(f"{path}:{line}", dict(zip(columns, cells, strict=True)))


def _read_records(path: Path, reader: Reader) -> Iterator[tuple[int, list[str]]]:
    """Yield the records that are not empty, each with the line on which it begins."""
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            remedy = 'a cell with a quote in it is written "like ""this"" one", and every quote must be closed'
            raise DataError(f"{path}:{line}: broken row: {error}; {remedy}: fix this row or remove it") from error
        if cells is None:
            return
        if cells:
            yield line, cells


def _check_columns(place: str, columns: Sequence[str], separator: str) -> None:
    """Raise `DataError` for a header with an unnamed or duplicate column."""
    for number, name in enumerate(columns, 1):
        if not name.strip():
            raise DataError(
                f"{place}: column {number} has no name; the first line names every column. Name it, or remove the column "
                "(pandas writes one unless index=False is set)"
            )
        if (first := columns.index(name) + 1) != number:
            raise DataError(f"{place}: columns {first} and {number} are both named '{name}'; rename or remove one of them")
    others = [mark for mark in (",", "\t", ";", "|") if mark != separator and columns and mark in columns[0]]
    if len(columns) == 1 and others:
        raise DataError(
            f"{place}: the only column is named {columns[0][:80]!r}, so cells seem to be separated by a {_NAMES[others[0]]}; "
            "they are separated by commas in a .csv file and by tabs in a .tsv file: save it as one of these"
        )


def _make_ragged_error(place: str, cells: Sequence[str], columns: Sequence[str], separator: str) -> DataError:
    what = f"{len(cells)} cell{'s' if len(cells) > 1 else ''}, but the first line names {len(columns)} columns"
    remedy = f'put a cell that holds a {_NAMES[separator]} or a line end in quotes ("…"), and write an empty cell as nothing'
    return DataError(f"{place}: {what} ({', '.join(columns)[:200]}); {remedy}")
