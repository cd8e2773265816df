"""Moves the window of a conversation that is too long, and optionally has the dropped part summarised."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import evolve

from astuner.contract.protocols import ContextRoom, EpisodeIdentity, Tracked, TrackerTraits
from astuner.contract.schema import Call, Message
from astuner.episodes.builtin.trackers.context_window import ContextWindow
from astuner.episodes.builtin.trackers.summaries import Summarise, fold
from astuner.episodes.builtin.trackers.timeline import TimelineTracker


class WindowPolicy:
    """The window of one episode."""

    def __init__(self, *, keep_turns: int, summarise: Summarise | None, summary_tokens: int) -> None:
        """`keep_turns` stay when the window moves; without `summarise` the others are left out, with a note."""
        self.notices: dict[str, str] = {}
        """Notices for the user, by topic."""
        self._keep_turns, self._summarise, self._summary_tokens = keep_turns, summarise, summary_tokens
        self._window: ContextWindow | None = None

    def show(self, messages: Sequence[Message]) -> list[Message]:
        """Return the shown messages of the current window; the first call sets the beginning of the conversation."""
        return self._find_window(messages).show(messages)

    def count_turns(self, messages: Sequence[Message]) -> int:
        """Return how many turns are shown."""
        return len(self._find_window(messages).find_turns(messages))

    async def move(self, messages: Sequence[Message], room: ContextRoom) -> list[Message]:
        """Move the window and return the shown messages; unchanged if nothing more can be left out."""
        window = self._find_window(messages)

        async def fits(shown: Sequence[Message], reserve: int = 0) -> bool:
            return await room.count_tokens(shown) + reserve <= room.max_prompt_tokens

        reserve = self._summary_tokens if self._summarise is not None else 0
        moved = await window.move_on(messages, self._keep_turns, partial(fits, reserve=reserve))
        if (moved.head, moved.start) != (window.head, window.start):
            if self._summarise is not None:
                moved = await self._fold(window, moved, messages, room, self._summarise)
            if not await fits(moved.show(messages)):
                moved = await moved.move_on(messages, self._keep_turns, fits)
            self._window = moved
        return moved.show(messages)

    async def _fold(
        self, window: ContextWindow, moved: ContextWindow, messages: Sequence[Message], room: ContextRoom, summarise: Summarise
    ) -> ContextWindow:
        try:
            return await fold(window, moved, messages, room, summarise)
        except Exception as error:  # noqa: BLE001 - a failed summary must not fail the episode
            self.notices["context_summary"] = (
                f"context_tracker: a summary could not be made ({type(error).__name__}: {error}); "
                "the oldest messages are left out without one"
            )
            return moved

    def _find_window(self, messages: Sequence[Message]) -> ContextWindow:
        if self._window is None:
            self._window = ContextWindow.begin(messages)
        return self._window


class WindowTracker:
    """A tracker that shows a window of a conversation; its samples are those of `timeline`, one per path."""

    traits = TrackerTraits(manages_context=True)
    Options: type[Any]

    def __init__(self, options: Any = None, *, summarise: Summarise | None = None, summary_tokens: int = 0) -> None:
        """`summarise` makes the summaries, of at most `summary_tokens`; without it what is not shown is left out."""
        self._options = options or self.Options()
        self._policy = WindowPolicy(keep_turns=self._options.keep_turns, summarise=summarise, summary_tokens=summary_tokens)

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return one sample per path: a window position, or what a summary by the model ends or begins."""
        return evolve(TimelineTracker().samples(calls, identity), notices=self._policy.notices)

    def action(self, reply: Message) -> Message:
        """Return the reply."""
        return reply
