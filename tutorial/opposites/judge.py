"""The judge: half of the reward for each opposite in its place."""

from __future__ import annotations

import re

from astuner import WorkflowOutput, WorkflowTask

FORM = re.compile(r"Answer: (\w+), (\w+)\.")


class PlacesRight:
    """The share of opposites in the right place; 0 for an answer in another form."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        right = workflow_task.task.metadata["opposites"]
        found = FORM.fullmatch(workflow_output.metadata["answer"])
        if found is None:
            return 0.0, False
        places = sum(word == expected for word, expected in zip(found.groups(), right, strict=True))
        return places / len(right), places == len(right)
