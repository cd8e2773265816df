"""Values of a table's cells as the JSON values that a task carries."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from astuner.errors import DataError


def as_json_value(value: Any, column: str, place: str) -> Any:
    """Return the value with dates, times and decimals as text; anything else that is not JSON raises `DataError`."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [as_json_value(item, column, place) for item in value]
    if isinstance(value, dict):
        return {str(key): as_json_value(item, column, place) for key, item in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    raise DataError(
        f"{place}: column '{column}' holds a {type(value).__name__}, which a task cannot carry (JSON values only); "
        "remove the column from the data set, or store a path or a text in its place"
    )
