"""Rows of files (JSON lines, JSON, csv, tsv, parquet) and the tasks made from them, for all readers of tabular data."""

from astuner.shared.tabular.cell_values import convert_to_json, parse_json_columns
from astuner.shared.tabular.json_rows import read_json_rows
from astuner.shared.tabular.strict_json import parse_json
from astuner.shared.tabular.task_rows import Row, make_content_id, make_tasks
from astuner.shared.tabular.unique_ids import UniqueIds

__all__ = [
    "Row",
    "UniqueIds",
    "convert_to_json",
    "make_content_id",
    "make_tasks",
    "parse_json",
    "parse_json_columns",
    "read_json_rows",
]
