"""Groups in which something cannot be read, as when a file, a server or a row of data fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from attrs import evolve

from astuner.schema import Episode, Group, WorkflowOutput


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
    task = evolve(group.task)
    object.__setattr__(task, "metadata", shared)  # past the converter, which would read it
    episodes = tuple(evolve(episode, task=task) for episode in group.episodes)
    return evolve(group, task=task, episodes=episodes), {episode.id: shared for episode in episodes if episode.completed}


def break_outputs(group: Group) -> Broken:
    """Break `output.metadata`."""
    broken: dict[str, Unreadable] = {}

    def break_output(episode: Episode) -> Episode:
        broken[episode.id] = Unreadable()
        output = WorkflowOutput() if episode.output is None else evolve(episode.output)
        object.__setattr__(output, "metadata", broken[episode.id])
        return evolve(episode, output=output)

    return _change_completed(group, break_output), broken


def break_observations(group: Group) -> Broken:
    """Break `observations`."""
    broken: dict[str, Unreadable] = {}

    def break_observations_of(episode: Episode) -> Episode:
        broken[episode.id] = Unreadable()
        return evolve(episode, observations=broken[episode.id])

    return _change_completed(group, break_observations_of), broken


def break_replies(group: Group) -> Broken:
    """Break the model's replies in `calls`."""
    broken: dict[str, Unreadable] = {}

    def break_replies_of(episode: Episode) -> Episode:
        broken[episode.id] = Unreadable()
        return evolve(episode, calls=tuple(evolve(call, reply=broken[episode.id]) for call in episode.calls))

    return _change_completed(group, break_replies_of), broken


WAYS: Mapping[str, Callable[[Group], Broken]] = {
    "task.metadata": break_tasks,
    "output.metadata": break_outputs,
    "observations": break_observations,
    "calls[…].reply": break_replies,
}
"""By the unreadable field."""


def _change_completed(group: Group, change: Callable[[Episode], Episode]) -> Group:
    return evolve(group, episodes=tuple(change(episode) if episode.completed else episode for episode in group.episodes))
