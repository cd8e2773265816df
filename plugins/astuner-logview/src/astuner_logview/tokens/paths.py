"""The paths of a token tree, from a root to a leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astuner.contract.schema import Episode
from astuner.contract.token_streams import Stretch, find_leaves, find_stretches, index_calls, stream_length
from astuner.episodes.transcript.conversations import name_conversations
from astuner.episodes.transcript.trained_tokens import mark_trained_tokens
from astuner_logview.errors import Missing

MAIN_LINE = "main line"
"""The name of the conversation in which an agent made most calls."""


def list_paths(episode: Episode) -> list[dict[str, Any]]:
    """Return the `Path`s of an episode that have tokens, in the order of their leaves."""
    calls = index_calls(episode.calls)
    trained = mark_trained_tokens(episode)
    names = name_conversations(episode.calls)
    paths: list[dict[str, Any]] = []
    for leaf in find_leaves(calls):
        parts = find_stretches(calls, leaf)
        if not stream_length(calls[leaf]):
            continue
        paths.append(
            {
                "leaf": leaf,
                "agent": calls[leaf].agent,
                "calls": [part.call.index for part in parts if part.fed or part.sampled],
                "tokens": stream_length(calls[leaf]),
                "trained": sum(int(trained[part.call.index][: part.sampled].sum()) for part in parts),
                "main": False,
                "conversation": next((names[part.call.index] for part in reversed(parts) if part.call.index in names), None),
                "root": parts[0].call.index,
            }
        )
    by_agent: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        by_agent.setdefault(path["agent"], []).append(path)
    for of_agent in by_agent.values():
        # The longest of the main line: a sub-agent may have said more.
        max(of_agent, key=lambda path: (names.get(path["root"], MAIN_LINE) == MAIN_LINE, path["tokens"]))["main"] = True
    for path in paths:
        del path["root"]
    return paths


def find_path(episode: Episode, leaf: int | None) -> Sequence[Stretch]:
    """Return the stretches of a path; without a leaf, of the longest. Raises `Missing`."""
    calls = index_calls(episode.calls)
    if leaf is None:
        sizes = {call: stream_length(calls[call]) for call in find_leaves(calls)}
        leaf = max(sizes, key=lambda call: sizes[call], default=None)
        if leaf is None or not sizes[leaf]:
            raise Missing("the episode has no tokens", "no call of a model was recorded")
    if leaf not in calls or not stream_length(calls[leaf]):
        raise Missing("the episode has no such path of tokens", "its page lists the paths")
    return find_stretches(calls, leaf)
