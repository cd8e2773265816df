"""Which episodes of a run a person wants to see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice

from attrs import field, frozen
from attrs.validators import ge, optional

from astuner.contract.errors import UsageError
from astuner.contract.schema import Episode
from astuner.episodes.transcript.episode_text import format_transcript
from astuner.runs.store.episode_index import EpisodeIndex, IndexedEpisode


@frozen(kw_only=True)
class Selection:
    """All conditions hold together; without any, every episode is selected."""

    step: int | None = None
    task: str | None = None
    """A task's id."""
    failed: bool = False
    """Only episodes that failed, or whose judge did."""
    min_reward: float | None = None
    """Only episodes with this reward or more."""
    grep: str | None = None
    """Only episodes whose transcript has this text in one of its lines."""
    lowest: int | None = field(default=None, validator=optional(ge(1)))
    """This many of those with a reward, from the lowest; of equal ones those first that a sibling beats most."""
    highest: int | None = field(default=None, validator=optional(ge(1)))
    """This many of those with a reward, from the highest, and before the lowest; of equal ones those first that beat most."""


def select_episodes(index: EpisodeIndex, selection: Selection) -> Iterator[Episode]:
    """Yield the selected episodes, one at a time in memory: by step, siblings side by side, or in the order of their rewards.

    Raises `UsageError` at once for a step or a task that is not stored.
    """
    _check_stored(index, selection)
    return _load_selected(index, selection)


def _load_selected(index: EpisodeIndex, selection: Selection) -> Iterator[Episode]:
    found = _order(_filter(index, selection))
    if selection.highest is None and selection.lowest is None:
        yield from _load(index, selection, found, len(index))
    if selection.highest is not None:
        yield from _load(index, selection, _rank(found, -1.0), selection.highest)
    if selection.lowest is not None:
        yield from _load(index, selection, _rank(found, 1.0), selection.lowest)


def _load(index: EpisodeIndex, selection: Selection, found: Iterable[IndexedEpisode], most: int) -> Iterator[Episode]:
    loaded = filter(None, map(index.load, found))
    yield from islice((one for one in loaded if selection.grep is None or selection.grep in format_transcript(one)), most)


def _filter(index: EpisodeIndex, selection: Selection) -> Iterator[IndexedEpisode]:
    for one in index:
        fits = selection.step in (None, one.step) and selection.task in (None, one.task_id)
        good = selection.min_reward is None or (one.reward is not None and one.reward >= selection.min_reward)
        if fits and good and (one.failed or not selection.failed):
            yield one


def _order(episodes: Iterable[IndexedEpisode]) -> list[IndexedEpisode]:
    found = list(episodes)
    # Groups in the order in which the first of their episodes finished.
    places: dict[tuple[int, str], int] = {}
    for one in found:
        places.setdefault((one.step, one.task_id), len(places))
    found.sort(key=lambda one: (one.step, places[one.step, one.task_id], one.repeat))
    return found


def _rank(found: Iterable[IndexedEpisode], sign: float) -> list[IndexedEpisode]:
    """Return those with a reward by `sign` times it; of equal ones those first whose siblings differ most the other way."""
    rewards = {one.id: sign * one.reward for one in found if one.reward is not None}
    best: dict[tuple[int, str], float] = {}
    for one in found:
        if one.id in rewards:
            best[one.step, one.task_id] = max(rewards[one.id], best.get((one.step, one.task_id), rewards[one.id]))
    rewarded = [one for one in found if one.id in rewards]
    return sorted(rewarded, key=lambda one: (rewards[one.id], -best[one.step, one.task_id]))


def _check_stored(index: EpisodeIndex, selection: Selection) -> None:
    tasks = {one.task_id for one in index}
    if selection.step is not None and selection.step not in index.steps:
        there = f"there are {_describe_steps(index.steps)}" if index.steps else "none are stored yet"
        raise UsageError(f"{index.path}: no episodes of step {selection.step}; {there}")
    if selection.task is not None and selection.task not in tasks:
        close = get_close_matches(selection.task, tasks, n=1)
        some = ", ".join(sorted(tasks)[:8]) + (f" and {len(tasks) - 8} more" if len(tasks) > 8 else "")
        hint = f" Did you mean '{close[0]}'?" if close else f" There are: {some}."
        where = "" if index.step is None else f" in step {index.step}"
        raise UsageError(f"{index.path}: no episodes of a task '{selection.task}'{where}.{hint}")


def _describe_steps(steps: set[int]) -> str:
    first, last = min(steps), max(steps)
    if len(steps) == last - first + 1:
        return f"those of step {first}" if first == last else f"those of steps {first} to {last}"
    named = sorted(steps)
    return f"those of steps {', '.join(map(str, named[:8]))}" + (f"… {last}" if len(named) > 8 else "")
