"""Reading runs of any state, while they run too: their state, metrics and episodes, and how two differ. Nothing is changed."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.runs.inspection.metric_names import find_metric_name
    from astuner.runs.inspection.run import Run
    from astuner.runs.inspection.run_search import RECORD, list_run_paths, open_run
    from astuner.runs.inspection.stored_tokenizer import StoredTokenizer

__all__ = [
    "RECORD",
    "Run",
    "StoredTokenizer",
    "find_metric_name",
    "list_run_paths",
    "open_run",
]

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
