"""What the episodes of a rollout process report to the user: each message once, and code that had to be abandoned counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from astuner.episodes.containment.user_code import UserCode


class RolloutNotices:
    """Passes on the messages of many episodes. Lives in one event loop."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        """`notify` gets what is shown."""
        self._notify = notify
        self._topics: set[str] = set()
        self._abandoned: Counter[str] = Counter()

    def show(self, text: str) -> None:
        """Show a message."""
        self._notify(text)

    def show_once(self, text: str, topic: str | None = None) -> None:
        """Show a message, unless it or another one of its topic was shown before."""
        if (topic or text) not in self._topics:
            self._topics.add(topic or text)
            self._notify(text)

    def count_abandoned(self, code: UserCode, text: str) -> None:
        """Count a piece of users' code that did not end; `text` is shown for the first one of each place."""
        place = code.find_line() or "an unknown line"
        self._abandoned[place] += 1
        self.show_once(text, f"abandoned at {place}")

    def summarise_abandoned(self) -> None:
        """Show how much code was abandoned, if it was more than what a message has said."""
        if (total := self._abandoned.total()) > 1:
            places = ", ".join(f"{count} at {place}" for place, count in self._abandoned.most_common(5))
            self._notify(f"{total} pieces of users' code did not end when they were cancelled, and were abandoned: {places}")
