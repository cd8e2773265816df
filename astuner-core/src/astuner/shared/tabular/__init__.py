"""Rows of files (JSON lines, JSON, csv, tsv, parquet) and the tasks made from them, for all readers of tabular data."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.shared.tabular.cell_values import convert_to_json as convert_to_json
    from astuner.shared.tabular.cell_values import parse_json_columns as parse_json_columns
    from astuner.shared.tabular.json_rows import read_json_rows as read_json_rows
    from astuner.shared.tabular.strict_json import parse_json as parse_json
    from astuner.shared.tabular.task_rows import Row as Row
    from astuner.shared.tabular.task_rows import UniqueIds as UniqueIds
    from astuner.shared.tabular.task_rows import make_content_id as make_content_id
    from astuner.shared.tabular.task_rows import make_tasks as make_tasks

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
