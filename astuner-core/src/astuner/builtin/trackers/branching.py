"""Reports where an episode's conversations branched, for setups that need one row per agent."""

from __future__ import annotations

from collections.abc import Sequence

from astuner.protocols import EpisodeIdentity
from astuner.schema import Call
from astuner.token_streams import index_calls, stream_length


def describe_branches(calls: Sequence[Call], identity: EpisodeIdentity) -> dict[str, str]:
    """Return, for each agent whose calls do not all lie on one path, where the first of them left it."""
    # Calls through an engine without token ids are not in the tree.
    known = index_calls([call for call in calls if stream_length(call)])
    seen: set[str] = set()
    continued: set[int] = set()
    found: dict[str, str] = {}
    for index in sorted(known):
        call = known[index]
        parent = None if call.parent is None else known[call.parent]
        whole = parent is not None and call.kept == stream_length(parent) and parent.index not in continued
        if whole and parent is not None:
            continued.add(parent.index)
        elif call.agent in seen:
            found.setdefault(f"timeline_snap/{call.agent}", _describe_branch(call, parent, identity))
        seen.add(call.agent)
    return found


def _describe_branch(call: Call, parent: Call | None, identity: EpisodeIdentity) -> str:
    place = (
        "which starts a new conversation"
        if parent is None
        else f"which keeps {call.kept} of the {stream_length(parent)} tokens of call {parent.index}"
    )
    return (
        f"context_tracker.detect_timeline_snap: the conversation of agent '{call.agent}' branches, first in episode "
        f"{identity.episode_id} with call {call.index}, {place}; each branch is a sample of its own (signal/branches counts them)"
    )
