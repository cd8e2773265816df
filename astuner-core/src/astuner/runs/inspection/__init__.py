"""Reading runs of any state, while they run too: their state, metrics and episodes, and how two differ. Nothing is changed."""

from astuner.runs.inspection.metric_names import find_metric_name
from astuner.runs.inspection.run import Run
from astuner.runs.inspection.run_search import RECORD, list_run_paths, open_run
from astuner.runs.inspection.stored_tokenizer import StoredTokenizer
from astuner.runs.inspection.summary import REWARD, VALIDATION, summarise

__all__ = [
    "RECORD",
    "REWARD",
    "VALIDATION",
    "Run",
    "StoredTokenizer",
    "find_metric_name",
    "list_run_paths",
    "open_run",
    "summarise",
]
