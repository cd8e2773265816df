"""What went wrong in the episodes of a run: reported where it first happens, and counted."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import define, field

from astuner.contract.schema import Call, Episode, Group, Unjudged

LONGEST = 200
"""Characters of a text that are quoted."""
MOST_PLACES = 10
"""Places that are reported one by one; more are only counted."""


@define(eq=False)
class EpisodeFaults:
    """Errors of users' code by the place that raised them, tool calls that could not be read, and reasoning that was cut off."""

    directory: Path
    _failed: Counter[tuple[str, str]] = field(factory=Counter, init=False)
    """Episodes by what failed in them and where."""
    _reported: Counter[tuple[str, str]] = field(factory=Counter, init=False)
    """How many of them a message has counted."""
    _calls: int = field(default=0, init=False)
    _call_episodes: int = field(default=0, init=False)
    _calls_reported: int = field(default=0, init=False)
    _cut_reported: bool = field(default=False, init=False)

    def add(self, groups: Sequence[Group]) -> list[str]:
        """Count the faults of these groups, and return messages on those that are new."""
        episodes = [episode for group in groups for episode in group.episodes]
        return [*self._add_errors(episodes), *self._add_unreadable_calls(episodes), *self._find_cut_reasoning(episodes)]

    def summarise(self) -> list[str]:
        """Return the counts of what happened again after its message."""
        texts = [
            f"in all, {count} episodes: {what} failed {place}"
            for (what, place), count in self._failed.most_common()
            if count > self._reported[what, place]
        ][:MOST_PLACES]
        if self._calls > self._calls_reported:
            texts.append(f"in all, {self._calls} tool calls could not be read, in {self._call_episodes} episodes")
        return texts

    def _add_errors(self, episodes: Sequence[Episode]) -> Iterator[str]:
        cases_by_place: dict[tuple[str, str], list[tuple[Episode, str]]] = {}
        for episode in episodes:
            for what, place, detail in _list_errors(episode):
                cases_by_place.setdefault((what, place), []).append((episode, detail))
        for key, cases in cases_by_place.items():
            is_new = key not in self._failed
            self._failed[key] += len(cases)
            if not is_new or len(self._failed) > MOST_PLACES:
                continue
            self._reported[key] = len(cases)
            (first, detail), share = cases[0], f"{len(cases)} of {len(episodes)} episodes"
            yield (
                f"{key[0]} failed {key[1]} in {share} of step {first.step} ({first.split}), first in {first.id}: "
                f"{_shorten(detail)}. The traceback is shown by `astuner episodes {shlex.quote(str(self.directory))} --failed`"
            )

    def _add_unreadable_calls(self, episodes: Sequence[Episode]) -> Iterator[str]:
        unreadable = [(episode, call) for episode in episodes for call in episode.calls if _count_unreadable(call)]
        count = sum(_count_unreadable(call) for _, call in unreadable)
        is_new = bool(unreadable) and not self._calls
        self._calls += count
        self._call_episodes += len({episode.id for episode, _ in unreadable})
        if not is_new:
            return
        self._calls_reported = count
        episode, call = unreadable[0]
        agent = "" if call.agent == "agent" else f", {call.agent}"
        others = f" ({count} in {len(episodes)} episodes of step {episode.step})" if count > 1 else ""
        yield (
            f"{episode.id}{agent}: a tool call could not be read and stayed in the content{others}: "
            f"{_shorten(str(call.reply.get('content') or ''))}"
        )

    def _find_cut_reasoning(self, episodes: Sequence[Episode]) -> Iterator[str]:
        found = [] if self._cut_reported else [(e, call) for e in episodes for call in e.calls if _learns_cut(e, call)]
        if not found:
            return
        self._cut_reported = True
        episode, call = found[0]
        count = len({one.id for one, _ in found})
        keys = "rollout.max_response_length_in_one_turn, or the max_tokens of the agent"
        if call.finish_reason == "context":
            keys = "rollout.max_model_len and data.max_response_length"
        yield (
            f"{count} of {len(episodes)} episodes of step {episode.step} train on reasoning that a limit cut off, first "
            f"{episode.id}, {call.agent}: {len(call.output_ids)} tokens without an answer. They are rewarded as answers, so the "
            f"model learns to reason less, whether or not its reasoning was right. Raise {keys}; or set "
            "trainer_common.algorithm.overlong_filter, which leaves them out of the loss. `signal/cut_reasoning` counts them"
        )


def _learns_cut(episode: Episode, call: Call) -> bool:
    trained = any(call.index in sample.calls for sample in episode.samples if sample.trained)
    return trained and episode.split == "train" and episode.reward is not None and bool(call.reply.get("cut_reasoning"))


def _list_errors(episode: Episode) -> Iterator[tuple[str, str, str]]:
    """Yield what failed, where and why; of a judge that did not raise, the reason stands for the place."""
    if not episode.completed and episode.failures and (last := episode.failures[-1]).place:
        yield "the environment" if last.reason == "environment_error" else "the agent", f"at {last.place}", last.detail
    if isinstance(verdict := episode.verdict, Unjudged) and (verdict.place or verdict.detail):
        yield "the judge", f"at {verdict.place}" if verdict.place else f"({verdict.reason})", verdict.detail


def _count_unreadable(call: Call) -> int:
    count = call.reply.get("malformed_tool_call", 0)
    return count if isinstance(count, int) else 0


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."
