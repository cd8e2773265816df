"""The end of the explorer's pipeline: every row says how many rows its step has, so that the trainer reads whole steps."""

from __future__ import annotations

from typing import Any

from trinity.algorithm.advantage_fn.advantage_fn import AdvantageFn
from trinity.buffer.operators import ExperienceOperator
from trinity.common.experience import Experience

from astuner_trinity.rows import ROWS


class StepStamp(AdvantageFn, ExperienceOperator):
    """Stands where Trinity computes advantages; ours came with the rows."""

    def __call__(self, exps: Any, **_: Any) -> Any:
        """Do as `process` does."""
        return self.process(exps)

    def process(self, exps: list[Experience]) -> tuple[list[Experience], dict[str, float]]:
        """Mark the rows of one explorer step."""
        for row in exps:
            row.info[ROWS] = len(exps)
        return exps, {}

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """Return the arguments: none."""
        return {}

    @classmethod
    def compute_in_trainer(cls) -> bool:
        """It runs in the explorer."""
        return False
