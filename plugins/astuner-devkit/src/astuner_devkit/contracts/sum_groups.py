"""Made-up groups for judges: sums of two numbers, answered correctly, wrongly, evasively, and not at all."""

from __future__ import annotations

import numpy as np
from attrs import evolve

from astuner.contract.schema import Episode, Failure, Group, Task, WorkflowOutput
from astuner_devkit.episodes import episode


def make_sum_group(one: int, other: int) -> Group:
    """Return four completed siblings with different answers and one that failed, none of them judged yet.

    The right answer is in the task's `metadata["answer"]`, each sibling's in its output's `metadata["final_answer"]` and in the
    reply of its only call.
    """
    right = one + other
    task = Task(main_query=f"How much is {one} + {other}?", task_id=f"{one}+{other}", metadata={"answer": str(right)})
    answers = [str(right), f"The answer is {right + 1}.", None, "I do not know.", str(-right)]
    episodes = tuple(_make_sibling(task, repeat, answer) for repeat, answer in enumerate(answers))
    return Group(task=task, step=1, split="train", episodes=episodes)


def _make_sibling(task: Task, repeat: int, answer: str | None) -> Episode:
    blank = evolve(episode(repeat, task=task.task_id), task=task, verdict=None)
    if answer is None:
        return evolve(blank, output=None, calls=(), samples=(), failures=(Failure(reason="timeout", detail="made up"),))
    call = evolve(
        blank.calls[0],
        # Different texts have different tokens.
        output_ids=np.array([7 + repeat, 8, 2], dtype=np.int32),
        messages=({"role": "user", "content": task.main_query},),
        reply={"role": "assistant", "content": answer},
    )
    return evolve(blank, calls=(call,), output=WorkflowOutput(metadata={"final_answer": answer}, log_metrics={"turns": 1}))
