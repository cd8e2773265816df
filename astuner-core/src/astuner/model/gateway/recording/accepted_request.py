"""A request that an episode serves, and who asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from astuner.model.gateway.api_keys import Caller
    from astuner.model.gateway.recording.request import ChatRequest


@frozen(eq=False)
class AcceptedRequest:
    """A request with the messages that it continues, and without what is not served."""

    request: ChatRequest
    caller: Caller
    trained: bool
    """Whether the caller's targets are trained."""
