"""The suite `gsm8k` of `astuner eval --suite`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def choose_suite(file: str) -> Mapping[str, Any]:
    """Return the configuration that asks the questions of a file with the columns of GSM8K, and checks the final number."""
    path = str(Path(file).absolute())
    return {
        "task_reader.type": "dataset_file",
        "task_reader.dataset_file": {"training": {"file_path": path}, "validation": {"file_path": path}},
        "task_judge.judge_type": "math",
    }
