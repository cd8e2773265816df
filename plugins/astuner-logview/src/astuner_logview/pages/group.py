"""The page of a group: all siblings next to each other."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from astuner.contract.schema import Episode, Unjudged, Verdict
from astuner.contract.token_streams import find_stretches, index_calls, join_ids
from astuner_logview.errors import Missing
from astuner_logview.index.message_text import read_content
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library, LibraryRun
from astuner_logview.pages.episode_rows import describe_row
from astuner_logview.pages.lookups import find_group
from astuner_logview.pages.outcome import describe_failure, describe_verdict
from astuner_logview.pages.problems import list_problems
from astuner_logview.pages.shared_texts import count_shared_characters, count_shared_replies
from astuner_logview.pages.turns import Turn, describe_message, describe_turns
from astuner_logview.parameters import Parameters
from astuner_logview.tokens.paths import list_paths

SHOWN = 20_000
"""Characters of a text in a column."""


def show_group(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return all siblings of a task in a step, and where they part."""
    run = library.find(parameters.run)
    split, step, task = parameters.find_split() or "train", parameters.read_number("step"), parameters.read_text("task")
    problems, found = [], []
    for row in find_group(run, split, step, task):
        try:
            found.append((row, library.episodes.read(run.path, row)))
        except Missing as error:
            problems.append(error.message)
    shared = count_shared([_read_first_path(episode) for _, episode in found])
    turns = [describe_turns(episode, longest=SHOWN) for _, episode in found]
    for number, same in enumerate(count_shared_replies([episode for _, episode in found])):
        for own in turns:
            if number < len(own):
                own[number]["shared"] = same
    places = find_parting([episode for _, episode in found], shared)
    first = found[0][1] if found else None
    before, after = _find_neighbours(run, split, step, task)
    return {
        "split": split,
        "step": step,
        "task": task,
        "query": first.task.main_query if first else "",
        "messages": [describe_message(message) for message in first.task.init_messages] if first else [],
        "metadata": dict(first.task.metadata) if first else {},
        "siblings": [
            _describe_sibling(row, episode, own, place) for (row, episode), own, place in zip(found, turns, places, strict=True)
        ],
        "common": {"path": min((place["turn"] for place in places if place), default=0), "tokens": shared},
        "previous": before,
        "next": after,
        "problems": [*list_problems(run), *problems],
    }


def count_shared(streams: Sequence[np.ndarray[Any, Any]]) -> int:
    """Return how many ids all streams begin with; a stream without ids does not count."""
    with_ids = [stream for stream in streams if len(stream)]
    if not with_ids:
        return 0
    size = min(map(len, with_ids))
    same = np.ones(size, bool)
    for stream in with_ids[1:]:
        same &= stream[:size] == with_ids[0][:size]
    return size if same.all() else int(np.argmin(same))


def find_parting(episodes: Sequence[Episode], shared: int) -> list[dict[str, int] | None]:
    """Return for each episode the turn in which its first path leaves what all share, and the character of the reply there."""
    numbers = [_find_turn(episode, shared) for episode in episodes]
    replies = [episode.calls[number].reply for episode, number in zip(episodes, numbers, strict=True) if number is not None]
    characters = count_shared_characters([read_content(reply.get("content")) for reply in replies])
    return [None if number is None else {"turn": number, "character": characters, "token": shared} for number in numbers]


def _read_first_path(episode: Episode) -> np.ndarray[Any, Any]:
    leaf = next((path["leaf"] for path in list_paths(episode) if path["main"]), None)
    if leaf is None:
        return np.zeros(0, np.int32)
    return join_ids(find_stretches(index_calls(episode.calls), leaf))


def _find_turn(episode: Episode, shared: int) -> int | None:
    leaf = next((path["leaf"] for path in list_paths(episode) if path["main"]), None)
    if leaf is None:
        return None
    parts = find_stretches(index_calls(episode.calls), leaf)
    places = {call.index: place for place, call in enumerate(episode.calls)}
    for part in parts:
        if shared < part.start + part.fed + part.sampled:
            return places[part.call.index]
    return places[parts[-1].call.index]


def _describe_sibling(row: sqlite3.Row, episode: Episode, turns: list[Turn], place: dict[str, int] | None) -> dict[str, Any]:
    verdict = describe_verdict(episode.verdict) or {}
    judged, failed = isinstance(episode.verdict, Verdict), isinstance(episode.verdict, Unjudged)
    return {
        **describe_row(row),
        "rewards": verdict.get("rewards"),
        "components": verdict.get("components", {}),
        "rationale": verdict.get("rationale") if judged else None,
        "verdict_reason": verdict.get("reason") if failed else None,
        "verdict_detail": verdict.get("detail") if failed else None,
        "failure": describe_failure(episode.failures[-1]) if episode.failures and not episode.completed else None,
        "advantages": json.loads(row["advantages"]),
        "turns_shown": turns,
        "parts_at": place,
    }


def _find_neighbours(run: LibraryRun, split: str, step: int, task: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    number = SPLITS.index(split)
    with run.index.open() as connection:
        before = connection.execute(
            "SELECT step, task FROM episodes WHERE split=? AND (step, task) < (?, ?) ORDER BY step DESC, task DESC LIMIT 1",
            (number, step, task),
        ).fetchone()
        after = connection.execute(
            "SELECT step, task FROM episodes WHERE split=? AND (step, task) > (?, ?) ORDER BY step, task LIMIT 1",
            (number, step, task),
        ).fetchone()
    return tuple({"step": row["step"], "task": row["task"]} if row else None for row in (before, after))  # type: ignore[return-value]
