"""The environment `reasoning_gym`: the seeded, self-scoring task families of reasoning-gym, one question per episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from attrs import field, frozen
from attrs.validators import min_len

from astuner.errors import DataError, PluginError
from astuner.schema import Message, Split, Task, WorkflowTask
from astuner_envs.answers import put_forward
from astuner_envs.listing import NumberedTasks, numbered, place_of

NAME = "reasoning_gym"
RULES = "Answer the question. Put nothing but the final answer between <answer> and </answer>."


class ReasoningGym:
    """The family's own scorer gives the score, which may lie between 0 and 1."""

    has_sparse_score: ClassVar[bool] = True

    @frozen(kw_only=True)
    class Options(NumberedTasks):
        """Options of the environment `reasoning_gym`."""

        families: tuple[str, ...] = field(default=("chain_sum",), validator=min_len(1))
        """The task families, taken in turn."""
        family_options: Mapping[str, Mapping[str, Any]] = field(factory=dict)
        """By family: what its own configuration takes."""

    def __init__(self, workflow_task: WorkflowTask, options: Options | None = None) -> None:
        self._task_id, self._options = workflow_task.task.task_id, options or self.Options()
        self._family: Any = None
        self._entry: Mapping[str, Any] = {}
        self._score = 0.0

    @classmethod
    def list_tasks(cls, options: Options, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split."""
        return numbered(NAME, options, split)

    @classmethod
    def warm_up(cls) -> None:
        """Import reasoning-gym once for all instances of a server."""
        _reasoning_gym()

    async def reset(self) -> Sequence[Message]:
        """Return the question."""
        self._family, self._entry = entry_of(self._task_id, self._options)
        return [{"role": "system", "content": RULES}, {"role": "user", "content": str(self._entry["question"])}]

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Take the answer."""
        if self._family is None:
            raise RuntimeError("step comes after reset")
        self._score = float(self._family.score_answer(answer=put_forward(action), entry=self._entry))
        return [], self._score, True, {"is_success": self._score >= 1.0}

    async def evaluate(self, sparse: bool = False) -> float:
        """Return the scorer's score, or whether it is a full one."""
        return float(self._score >= 1.0) if sparse else self._score

    async def close(self) -> None:
        """Nothing is held."""


def entry_of(task_id: str, options: ReasoningGym.Options) -> tuple[Any, Mapping[str, Any]]:
    """Return the family and the entry that an id stands for."""
    split, number = place_of(task_id, options)
    reasoning_gym, families = _reasoning_gym()
    name = options.families[number % len(options.families)]
    if name not in families:
        raise DataError(f"environment 'reasoning_gym': there is no family {name!r}; there are {', '.join(sorted(families))}")
    size, place = options.training_tasks + options.validation_tasks, number
    if split == "validation":
        place += options.training_tasks
    made = reasoning_gym.create_dataset(name, seed=options.seed, size=size, **options.family_options.get(name, {}))
    return made, made[place]


def _reasoning_gym() -> tuple[Any, Mapping[str, Any]]:
    """Return the library, and what it has by family."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise PluginError(
            f"environment 'reasoning_gym' needs reasoning-gym ({error}): pip install 'astuner-envs[reasoning-gym]'"
        ) from error
    return reasoning_gym, DATASETS
