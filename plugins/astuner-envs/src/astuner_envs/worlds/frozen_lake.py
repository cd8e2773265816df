"""The environment `frozen_lake`: gymnasium's lake as text, crossed by words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le, lt

from astuner.contract.errors import PluginError
from astuner.contract.protocols import EnvironmentTraits
from astuner.contract.schema import Message, Split, Task, WorkflowTask
from astuner.shared.install_hints import install_command
from astuner_envs.listing import NumberedTasks, draw_for_split, list_numbered, locate_task, make_random
from astuner_envs.message_answers import extract_answer

NAME = "frozen_lake"
MOVES = ("left", "down", "right", "up")
"""In gymnasium's order."""
_MOVE = re.compile(r"\b(left|down|right|up)\b", re.IGNORECASE)
RULES = (
    "You stand on a frozen lake, seen from above. S is the start, F is ice that holds, H is a hole, G is the goal; brackets mark "
    "where you are. Reach the goal, and keep out of the holes. Answer with one move, left, down, right or up, in \\boxed{…}."
)


class FrozenLake:
    """One move per answer; an answer without a move gets a message, and counts as one."""

    traits = EnvironmentTraits(has_sparse_score=True)

    @frozen(kw_only=True)
    class Options(NumberedTasks):
        """Options of the environment `frozen_lake`."""

        size: int = field(default=4, validator=and_(ge(3), le(16)))
        """Number of rows, and of columns."""
        ice: float = field(default=0.8, validator=and_(gt(0.3), lt(1.0)))
        """Share of safe fields."""
        slippery: bool = False
        """Whether a move may slip to the side, at random; the chances depend only on the task and the moves."""
        moves: int = field(default=30, validator=ge(1))
        """The episode ends after this many moves."""

    def __init__(self, workflow_task: WorkflowTask, options: Options | None = None) -> None:
        self._task_id, self._options = workflow_task.task.task_id, options or self.Options()
        self._lake: Any = None
        self._map: tuple[str, ...] = ()
        self._moves, self._place, self._score = 0, 0, 0.0

    @classmethod
    def list_tasks(cls, options: Options, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split."""
        return list_numbered(NAME, options, split)

    @classmethod
    def warm_up(cls) -> None:
        """Import gymnasium once for all instances of a server."""
        _import_gymnasium()

    async def reset(self) -> Sequence[Message]:
        """Return the rules and the lake."""
        self._map, seed = make_lake(self._task_id, self._options)
        make = _import_gymnasium().make
        self._lake = make("FrozenLake-v1", desc=list(self._map), is_slippery=self._options.slippery)
        self._place = int(self._lake.reset(seed=seed)[0])
        return [{"role": "system", "content": RULES}, {"role": "user", "content": self._render_map()}]

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Move."""
        if self._lake is None:
            raise RuntimeError("step comes after reset")
        named = _MOVE.findall(extract_answer(action))
        self._moves += 1
        reward, done, said = 0.0, False, f"Name one move: {', '.join(MOVES)}."
        if named:
            place, reward, done, _, _ = self._lake.step(MOVES.index(named[-1].lower()))
            self._place, self._score = int(place), float(reward)
            said = "You fell into a hole." if done and not reward else "You reached the goal." if done else ""
        over = bool(done or self._moves >= self._options.moves)
        shown = "\n".join(filter(None, (said, self._render_map())))
        info = {"is_success": self._score == 1.0, "moves": self._moves, "move_found": bool(named)}
        return [{"role": "user", "content": shown}], float(reward), over, info

    async def evaluate(self, sparse: bool = False) -> float:
        """Return 1 at the goal, else 0."""
        return self._score

    async def close(self) -> None:
        """Release gymnasium."""
        if self._lake is not None:
            self._lake.close()

    def _render_map(self) -> str:
        row, column = divmod(self._place, len(self._map))
        lines = [[f" {field} " for field in line] for line in self._map]
        lines[row][column] = f"[{self._map[row][column]}]"
        return "\n".join("".join(line).rstrip() for line in lines)


def make_lake(task_id: str, options: FrozenLake.Options) -> tuple[tuple[str, ...], int]:
    """Return the map with this id, on which the goal can be reached, and the seed of its slips."""
    _import_gymnasium()
    from gymnasium.envs.toy_text.frozen_lake import generate_random_map

    split, number = locate_task(task_id, options)
    draw = make_random(f"{NAME}/{options.size}/{options.ice}", options, split, number)

    def draw_map() -> tuple[tuple[str, ...], int]:
        seed = draw.randrange(2**31)
        return tuple(generate_random_map(size=options.size, p=options.ice, seed=seed)), seed

    return draw_for_split(NAME, split, draw_map, lambda found: found[0])


def _import_gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise PluginError(
            f"environment 'frozen_lake' needs gymnasium ({error}): {install_command('astuner-envs[gymnasium]')}"
        ) from error
    return gymnasium
