"""The part of a growing conversation that a model is shown: its beginning, and the turns after a point that never recedes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from attrs import evolve, frozen

from astuner.contract.schema import Message

LEFT_OUT = "[{count} earlier messages are left out here.]"
SUMMARY = "[Summary of {count} earlier messages]\n{summary}"
"""Notes to the model about the messages it is not shown."""

Fits = Callable[[Sequence[Message]], Awaitable[bool]]
"""Returns whether messages fit into the context."""

SYSTEM = ("system", "developer")


@frozen(kw_only=True)
class ContextWindow:
    """The conversation less the messages between `head` and `start`.

    A turn is an assistant message with everything up to the next one; no turn is shown in part.
    """

    head: int
    """Messages at the beginning that stay."""
    start: int
    """All messages from here on are shown."""
    summary: str = ""
    """Replaces the summarised messages."""
    summarised: int = 0
    """Number of summarised messages."""

    @classmethod
    def begin(cls, messages: Sequence[Message]) -> ContextWindow:
        """Return the window of a conversation without answers yet: all of it stays."""
        return cls(head=len(messages), start=len(messages))

    def show(self, messages: Sequence[Message]) -> list[Message]:
        """Return the shown messages, with a note where some are left out. System messages are always shown."""
        head = list(messages[: self.head])
        note = self._note(self.count_left_out(messages))
        return [*(append_text(head, note) if note else head), *self._late_system(messages), *messages[self.start :]]

    def count_left_out(self, messages: Sequence[Message]) -> int:
        """Return how many messages are not shown."""
        return max(0, self.start - self.head - len(self._late_system(messages)))

    def find_turns(self, messages: Sequence[Message]) -> list[int]:
        """Return the starts of the shown turns outside the head."""
        return [place for place in find_turn_starts(messages) if place >= max(self.start, self.head)]

    async def move_on(self, messages: Sequence[Message], keep: int, fits: Fits) -> ContextWindow:
        """Return the window moved to the last `keep` turns, or fewer, at least one, until it fits.

        If even one does not fit together with the whole beginning of the conversation, only its first system messages and first
        user message are kept.
        """
        found = self
        passed = self.start if self.start > self.head else 0
        for head in dict.fromkeys((self.head, min(self.head, measure_core_head(messages)))):
            places = [place for place in find_turn_starts(messages) if place >= max(passed, head)]
            for place in places[max(0, len(places) - keep) :]:
                found = evolve(self, head=head, start=place)
                if await fits(found.show(messages)):
                    return found
        return found

    def _late_system(self, messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages[self.head : self.start] if message["role"] in SYSTEM]

    def _note(self, left_out: int) -> str:
        dropped = left_out - self.summarised
        parts = [SUMMARY.format(count=self.summarised, summary=self.summary)] if self.summary else []
        return "\n\n".join([*parts, *([LEFT_OUT.format(count=dropped)] if dropped > 0 else [])])


def append_text(messages: Sequence[Message], text: str) -> list[Message]:
    """Return the messages with a user text at the end, added to the last message if that is the user's.

    Many templates refuse two messages of the user in a row.
    """
    last = messages[-1] if messages else None
    if last is None or last["role"] != "user" or not isinstance(last.get("content"), str):
        return [*messages, {"role": "user", "content": text}]
    return [*messages[:-1], {**last, "content": f"{last['content']}\n\n{text}"}]


def measure_core_head(messages: Sequence[Message]) -> int:
    """Count the messages up to the first user message, if only system messages precede it."""
    for place, message in enumerate(messages):
        if message["role"] not in SYSTEM:
            return place + 1 if message["role"] == "user" else place
    return len(messages)


def find_turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return the positions of assistant messages that begin a turn: no later message is the result of an earlier tool call."""
    starts: list[int] = []
    callers: dict[object, int] = {}
    latest = 0
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            starts.append(place)
            for call in message.get("tool_calls") or ():
                # Some environments reuse ids in every turn: take the latest call.
                callers[call.get("id")] = latest = place
        elif message["role"] == "tool":
            caller = callers.get(message.get("tool_call_id"), latest)
            while starts and starts[-1] > caller:
                starts.pop()
    return starts
