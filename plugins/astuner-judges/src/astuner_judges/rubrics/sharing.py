"""Several graders of one run: each needs its own file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from astuner.contract.errors import DataError
from astuner.contract.protocols import RunInfo
from astuner_judges.rubrics.options import RubricsOptions


def check_not_shared(options: RubricsOptions, run_info: RunInfo) -> None:
    """Raise `DataError` if two judges would overwrite each other's rubrics in one file."""
    judges = run_info.config.task_judge
    values = [choice.options or judges.get_options(choice.judge) for choice in judges.judges if _is_this_judge(choice.judge)]
    own = [one for one in values if one.get("rubrics_file") is None and _grader_name(one) == options.grader_name]
    if options.rubrics_file is None and any(one != own[0] for one in own[1:]):
        raise DataError(
            f"astuner.task_judge.judges: {len(own)} of them are rubrics_auto_grader with grader_name: {options.grader_name} and "
            "different options: their rubrics would be in one file, and replace each other. Give each another grader_name or "
            "rubrics_file"
        )


def _is_this_judge(spec: str) -> bool:
    return re.split("[/:]|->", spec)[-1] in ("rubrics_auto_grader", "RubricsAutoGrader")


def _grader_name(values: Mapping[str, Any]) -> Any:
    return values.get("grader_name", RubricsOptions().grader_name)
