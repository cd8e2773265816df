"""Table cells converted to the JSON values of a task."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from astuner.contract.errors import DataError
from astuner.shared.tabular.strict_json import StrictJsonError, parse_json
from astuner.shared.tabular.task_rows import Row


def parse_json_columns(rows: Iterator[Row], columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows with the text in some columns parsed as JSON; empty text is null, other values stay."""
    for row in rows:
        values = dict(row.values)
        for column in columns:
            if column not in values:
                there = ", ".join(values) or "none"
                raise DataError(f"{row.place}: no column '{column}', which is in `json_columns`; columns are: {there}")
            values[column] = _parse_cell(values[column], column, row.place)
        yield row._replace(values=values)


def _parse_cell(value: Any, column: str, place: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value) if value.strip() else None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{place}: column '{column}' is in `json_columns`, but its cell is not JSON ({error.msg} in column {error.colno} of "
            f"the cell): {value[:80]!r}; fix the cell, or remove the column from `json_columns` to keep its text"
        ) from error
    except StrictJsonError as error:
        raise DataError(f"{place}: column '{column}': {error}") from error


def convert_to_json(value: Any, column: str, place: str) -> Any:
    """Return the value with dates, times and decimals as text; anything else that is not JSON raises `DataError`."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise DataError(f"{place}: column '{column}' holds {value}, which is not a JSON value; store null instead")
    if isinstance(value, list | tuple):
        return [convert_to_json(item, column, place) for item in value]
    if isinstance(value, dict):
        return {str(key): convert_to_json(item, column, place) for key, item in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    raise DataError(
        f"{place}: column '{column}' holds a {type(value).__name__}, which a task cannot carry (JSON values only); "
        "remove the column from the data set, or store a path or text instead"
    )
