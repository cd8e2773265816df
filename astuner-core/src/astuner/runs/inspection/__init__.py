"""Reading runs of any state, while they run too: their state, metrics and episodes, and how two differ. Nothing is changed."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.runs.inspection.metric_names import find_metric_name as find_metric_name
    from astuner.runs.inspection.run import Run as Run
    from astuner.runs.inspection.run_search import RECORD as RECORD
    from astuner.runs.inspection.run_search import list_run_paths as list_run_paths
    from astuner.runs.inspection.run_search import open_run as open_run
    from astuner.runs.inspection.stored_tokenizer import StoredTokenizer as StoredTokenizer

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
