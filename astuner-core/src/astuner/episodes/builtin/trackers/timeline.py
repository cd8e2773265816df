"""Samples along the paths of the token tree: each agent's turns in one row, a further row per branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from astuner.contract.protocols import EpisodeIdentity, Tracked
from astuner.contract.schema import Call
from astuner.contract.token_streams import find_leaves, find_stretches, index_calls, stream_length
from astuner.episodes.builtin.trackers.path_rows import (
    AnswerFilter,
    Row,
    accept_every_answer,
    count_untrained,
    make_sample,
    take_row,
)

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo


class TimelineTracker:
    """One sample per path from a root of the tree to a leaf.

    Tokens shared by two paths are trained in the first and context in the others.
    """

    def __init__(self, *, merges_text: bool = False, ignores_tools: bool = True, reports_branches: bool = False) -> None:
        """Exact by default; see `context_tracker.timeline_merging_policy` and `detect_timeline_snap`."""
        self._merges_text, self._ignores_tools, self._reports_branches = merges_text, ignores_tools, reports_branches

    @classmethod
    def from_run(cls, options: None, run_info: RunInfo) -> TimelineTracker:
        """Make one from the section `context_tracker`."""
        section = run_info.config.context_tracker
        policy = section.timeline_merging_policy
        return cls(
            merges_text=policy.timeline_compare_level == "text",
            ignores_tools=policy.ignore_tools,
            reports_branches=section.detect_timeline_snap,
        )

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return the samples in the order of their last calls, and the tokens of untrained calls by reason."""
        done: dict[int, int] = {}
        rows = take_path_rows(calls, done)
        if self._merges_text:
            from astuner.episodes.builtin.trackers.text_merging import merge_by_text

            rows = merge_by_text(rows, ignore_tools=self._ignores_tools)
        return Tracked(
            samples=[make_sample(row, identity) for row in rows],
            untrained=count_untrained(calls, done),
            notices=describe_branches(calls, identity) if self._reports_branches else {},
        )


def take_path_rows(calls: Sequence[Call], done: dict[int, int], wanted: AnswerFilter = accept_every_answer) -> list[Row]:
    """Return the rows of all paths, and count what they train in `done` (sampled tokens by call)."""
    known = index_calls(calls)
    rows = (take_row(find_stretches(known, leaf), done, wanted) for leaf in find_leaves(known))
    return [row for row in rows if row is not None]


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
