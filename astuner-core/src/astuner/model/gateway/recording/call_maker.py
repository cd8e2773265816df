"""What makes the calls of a request, whichever kind of engine answers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from astuner.model.gateway.recording.request import AcceptedRequest
    from astuner.model.gateway.recording.running_call import RunningCall
    from astuner.model.gateway.recording.turn import Turn

P = TypeVar("P")


class CallMaker(Protocol[P]):
    """Makes calls in two steps: the first may take long and changes no records, the second changes them at once."""

    def place(self, accepted: AcceptedRequest) -> P:
        """Return the place of each prompt; raises ApiError, or LongText if `place_long` is to be called in a thread."""

    def place_long(self, accepted: AcceptedRequest) -> P:
        """Return the place of each prompt, however long that takes; raises ApiError."""

    def make(self, accepted: AcceptedRequest, places: P) -> tuple[Turn, Sequence[RunningCall[Any]]]:
        """Make the turn, and the calls that it is to start, for prompts in these places; raises ApiError if one does not fit."""

    def count(self, places: P) -> int:
        """Return the number of tokens in the first prompt; raises ApiError if the engine takes none."""

    async def release(self) -> None:
        """Let the engine forget the episode."""
