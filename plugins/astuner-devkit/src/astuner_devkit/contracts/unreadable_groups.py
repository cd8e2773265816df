"""Groups in which something cannot be read, as when a file, a server or a row of data fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from attrs import evolve

from astuner.contract.schema import Call, Episode, Group, Task, WorkflowOutput

Record = TypeVar("Record", Task, WorkflowOutput, Call)


class Unreadable(dict[str, Any]):
    """A mapping that raises whenever it is read, and records that it was."""

    def __init__(self) -> None:
        # Not empty: json's C code handles an empty dict without reading it.
        super().__init__(unreadable=True)
        self.touched = False

    def _fail(self, *_: Any, **__: Any) -> NoReturn:
        self.touched = True
        raise RuntimeError("this cannot be read: the contract broke it to test how the judge handles a failure")

    __getitem__ = __iter__ = __len__ = __bool__ = __contains__ = __eq__ = __ne__ = __or__ = __ror__ = _fail
    get = items = keys = values = copy = pop = setdefault = __reduce_ex__ = _fail

    def __repr__(self) -> str:
        # Not a read: asyncio and tracebacks print arguments.
        return "<unreadable>"


Broken = tuple[Group, Mapping[str, Unreadable]]
"""The group, and the unreadable mapping of each completed episode by the episode's id."""


def break_tasks(group: Group) -> Broken:
    """Break `task.metadata`."""
    shared = Unreadable()
    task = _break_field(group.task, "metadata", shared)
    episodes = tuple(evolve(episode, task=task) for episode in group.episodes)
    return evolve(group, task=task, episodes=episodes), {episode.id: shared for episode in episodes if episode.completed}


def break_outputs(group: Group) -> Broken:
    """Break `output.metadata`."""

    def change(episode: Episode, unreadable: Unreadable) -> Episode:
        output = _break_field(episode.output or WorkflowOutput(), "metadata", unreadable)
        return evolve(episode, output=output)

    return _break_completed(group, change)


def break_observations(group: Group) -> Broken:
    """Break `observations`."""
    return _break_completed(group, lambda episode, unreadable: evolve(episode, observations=unreadable))


def break_replies(group: Group) -> Broken:
    """Break the model's replies in `calls`."""

    def change(episode: Episode, unreadable: Unreadable) -> Episode:
        return evolve(episode, calls=tuple(_break_field(call, "reply", unreadable) for call in episode.calls))

    return _break_completed(group, change)


WAYS: Mapping[str, Callable[[Group], Broken]] = {
    "task.metadata": break_tasks,
    "output.metadata": break_outputs,
    "observations": break_observations,
    "calls[…].reply": break_replies,
}
"""By the unreadable field."""


def _break_field(record: Record, name: str, unreadable: Unreadable) -> Record:
    """Return a copy with one field broken past its converter, which would read it."""
    broken = evolve(record)
    object.__setattr__(broken, name, unreadable)
    return broken


def _break_completed(group: Group, change: Callable[[Episode, Unreadable], Episode]) -> Broken:
    broken = {episode.id: Unreadable() for episode in group.episodes if episode.completed}
    episodes = tuple(change(episode, broken[episode.id]) if episode.completed else episode for episode in group.episodes)
    return evolve(group, episodes=episodes), broken
