"""The output of the debug backbone: each episode as it ends, the judge's verdicts, and finally the training samples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from astuner.contract.protocols import Control, RunInfo
from astuner.contract.schema import Unjudged
from astuner.episodes.transcript.episode_text import (
    Details,
    find_judge_traceback,
    find_outcome_colour,
    format_outcome,
    format_transcript,
)
from astuner.episodes.transcript.signal_waterfall import build_waterfall
from astuner.episodes.transcript.terminal_text import Page

if TYPE_CHECKING:
    from astuner.contract.schema import Episode, Group, Split
    from astuner.episodes.judging.advantages import WeightedSample

LONGEST_MESSAGE = 2000
"""Characters of a message that are shown."""

MOST_SAMPLES = 64
"""Rows of the table at the end."""

NO_CALLS = "no episode called the model, so there are no samples and nothing could be trained"

NO_TOKEN_IDS = (
    "the engine returns text without token ids, so there are no samples and nothing could be trained; transcripts and rewards "
    "are the same as with any other engine"
)


class DebugReport:
    """Reports episodes while they are played."""

    def __init__(self, run: RunInfo, control: Control, split: Split, repeats: int) -> None:
        """Show nothing yet."""
        self._control, self._repeats = control, repeats
        self._page = Page.of(sys.stderr, longest=LONGEST_MESSAGE)
        self._file = run.directory / "episodes" / f"{split}.jsonl"
        self._decode: Callable[[Sequence[int]], str] | None = None
        self.groups: list[Group] = []
        """The groups judged so far."""
        self._unjudged: dict[str, Episode] = {}
        """Single episodes waiting for their judge."""
        self._failed_at: dict[str, str] = {}
        """Where users' code has raised, and the episode that shows the traceback."""

    def decode_with(self, renderer: Any) -> None:
        """Show sampled ids as text."""
        self._decode = None if renderer is None else renderer.decode

    def show_episode(self, episode: Episode) -> None:
        """Show an episode as soon as it has ended; groups are judged later."""
        if self._repeats == 1:
            self._unjudged[episode.id] = episode
            return
        self._show(episode, with_outcome=episode.verdict is not None or not episode.completed)

    def show_group(self, group: Group) -> None:
        """Show a judged group."""
        self.groups.append(group)
        if self._repeats == 1:
            for episode in group.episodes:
                self._unjudged.pop(episode.id, None)
                self._show(episode, with_outcome=True)
            return
        lines = []
        for episode in group.played:
            kind = find_outcome_colour(episode)
            lines.append(self._page.block(f"  {episode.id}: ", format_outcome(episode), indent=6, kind=kind))
            self._note_places(episode)
            if (trace := find_judge_traceback(episode, self._failed_at)) is not None:
                lines.append(self._page.block(" " * 6, trace, indent=6))
        self._say("\n".join((self._page.paint(f"judged {group.key}", "title"), *lines)))

    def show_unjudged(self) -> None:
        """Show episodes that were played but not judged."""
        for episode in self._unjudged.values():
            self._show(episode, with_outcome=False)
        self._unjudged.clear()

    def show_samples(self, rows: Sequence[WeightedSample]) -> None:
        """Show the samples of a training step, and the waterfall of all sampled tokens."""
        if not self.groups:
            return
        calls = [call for group in self.groups for episode in group.episodes for call in episode.calls]
        if not any(len(call.output_ids) for call in calls):
            self._say(NO_TOKEN_IDS if calls else NO_CALLS)
            return
        self._say("\n".join(("the samples of a training step", *self._table(rows))))
        self._say("\n".join(("from what was sampled to what is learnt", *build_waterfall(self.groups, rows).lines())))

    def _show(self, episode: Episode, *, with_outcome: bool) -> None:
        details = Details(decode=self._decode, full_text_in=self._file)
        self._note_places(episode)
        text = format_transcript(episode, tokens=details, page=self._page, with_outcome=with_outcome, shown=self._failed_at)
        self._say(text)

    def _note_places(self, episode: Episode) -> None:
        unjudged = [episode.verdict] if isinstance(episode.verdict, Unjudged) else []
        for place in (*(one.place for one in episode.failures), *(one.place for one in unjudged)):
            self._failed_at.setdefault(place, episode.id)

    def _table(self, rows: Sequence[WeightedSample]) -> Iterator[str]:
        rewards = {e.id: e for group in self.groups for e in group.episodes}
        heads = ("episode", "agent", "tokens", "trained", "reward", "advantage")
        shown = [
            (
                row.sample.episode_id,
                row.sample.agent,
                f"{len(row.sample.ids):,}",
                f"{row.sample.trained:,}",
                f"{rewards[row.sample.episode_id].reward_of(row.sample.agent):g}",
                f"{row.advantage:+.3f}",
            )
            for row in rows[:MOST_SAMPLES]
        ]
        widths = [max(len(line[column]) for line in (heads, *shown)) for column in range(len(heads))]
        for line in (heads, *shown):
            words = [word.ljust(width) for word, width in zip(line[:2], widths[:2], strict=True)]
            numbers = [word.rjust(width) for word, width in zip(line[2:], widths[2:], strict=True)]
            yield "  " + "  ".join((*words, *numbers))
        if len(rows) > MOST_SAMPLES:
            yield f"  and {len(rows) - MOST_SAMPLES} more, in {self._file}"
        if not rows:
            yield "  none"

    def _say(self, text: str) -> None:
        self._control.notify(text, "info")
