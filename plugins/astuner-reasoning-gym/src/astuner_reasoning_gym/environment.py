"""The environment `reasoning_gym`: the seeded, self-scoring task families of reasoning-gym, one question per episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from attrs.validators import gt, min_len

from astuner.contract.errors import PluginError
from astuner.contract.protocols import EnvironmentTraits
from astuner.contract.schema import Message, Split, Task, WorkflowTask
from astuner.shared.install_hints import install_command
from astuner_envs.listing import NumberedTasks, list_numbered, locate_task
from astuner_envs.message_answers import extract_answer
from astuner_reasoning_gym.program import is_installed
from astuner_reasoning_gym.puzzles import NAME, Children, find_puzzle, get_children

RULES = "Answer the question. Put nothing but the final answer between <answer> and </answer>."


class ReasoningGym:
    """The family's own scorer gives the score, which may lie between 0 and 1.

    Puzzles are made and answers scored in a child process: some families evaluate an answer as Python. A scorer that takes too
    long, or fails on the puzzle itself, raises; an answer that it cannot read is worth 0.
    """

    traits = EnvironmentTraits(has_sparse_score=True)

    @frozen(kw_only=True)
    class Options(NumberedTasks):
        """Options of the environment `reasoning_gym`."""

        families: tuple[str, ...] = field(default=("chain_sum",), validator=min_len(1))
        """The task families, taken in turn."""
        family_options: Mapping[str, Mapping[str, Any]] = field(factory=dict)
        """By family: values of its own configuration."""
        timeout_s: float = field(default=30.0, validator=gt(0))
        """Longest time for making a puzzle, and for scoring an answer."""

    def __init__(self, workflow_task: WorkflowTask, options: Options | None = None) -> None:
        self._task_id, self._options = workflow_task.task.task_id, options or self.Options()
        self._children: Children | None = None
        self._source: Mapping[str, Any] = {}
        self._score = 0.0

    @classmethod
    def list_tasks(cls, options: Options, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split."""
        return list_numbered(NAME, options, split)

    @classmethod
    def warm_up(cls) -> None:
        """Check that reasoning-gym is installed; only children import it."""
        _check_installed()

    async def reset(self) -> Sequence[Message]:
        """Return the question."""
        _check_installed()
        self._children = get_children(self._options.timeout_s)
        self._source = await find_source(self._task_id, self._options, self._children)
        question = str(self._source["entry"]["question"])
        return [{"role": "system", "content": RULES}, {"role": "user", "content": question}]

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Take the answer."""
        if self._children is None:
            raise RuntimeError("step comes after reset")
        found = await self._children.ask(score={"source": self._source, "answer": extract_answer(action)})
        self._score = float(found["score"])
        unreadable = {"unreadable": found["unreadable"]} if "unreadable" in found else {}
        return [], self._score, True, {"is_success": self._score >= 1.0, **unreadable}

    async def evaluate(self, sparse: bool = False) -> float:
        """Return the scorer's score; `sparse`: whether it is the full one."""
        return float(self._score >= 1.0) if sparse else self._score

    async def close(self) -> None:
        """Nothing to release."""


async def find_source(task_id: str, options: ReasoningGym.Options, asked: Children) -> Mapping[str, Any]:
    """Return the puzzle with this id: its `entry` and settings."""
    split, number = locate_task(task_id, options)
    family = options.families[number % len(options.families)]
    return await find_puzzle(
        split,
        number,
        options.training_tasks if split == "train" else options.validation_tasks,
        family=family,
        config=options.family_options.get(family, {}),
        seed=options.seed,
        asked=asked,
    )


def _check_installed() -> None:
    if not is_installed():
        raise PluginError(f"environment 'reasoning_gym' needs reasoning-gym: {install_command('astuner-reasoning-gym')}")
