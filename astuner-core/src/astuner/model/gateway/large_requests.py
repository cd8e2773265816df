"""Reading large bodies: in a thread, and only as far as their prompts may fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from astuner.model.gateway.dialects.large_bodies import LargeBody
from astuner.model.rendering.errors import ApiError

if TYPE_CHECKING:
    from astuner.model.gateway.recording.recorder import EpisodeRecorder
    from astuner.model.gateway.recording.request import ChatRequest
    from astuner.model.rendering.prompt_bound import CountBytes

Read = Callable[[Mapping[str, Any]], "ChatRequest"]
"""Reads a parsed body; raises ApiError."""

Refuse = Callable[["ChatRequest", "CountBytes"], Awaitable[None]]
"""Raises ApiError if the outline of a request shows that it cannot be served."""


async def read_large(raw: bytes | bytearray, recorder: EpisodeRecorder, read: Read, refuse: Refuse) -> ChatRequest:
    """Read the body of an admitted request; raises ApiError. A `bytearray` is emptied.

    Most of what is too long is refused by its outline: decoded and parsed, a body takes several times its memory.
    """
    body = await recorder.order.run(lambda: LargeBody.take(raw))
    outlined = await recorder.order.run(lambda: _read_outline(body, recorder, read))
    if outlined is not None:
        await refuse(*outlined)
        del outlined
    return await recorder.order.run(lambda: read(body.parse()))


def _read_outline(body: LargeBody, recorder: EpisodeRecorder, read: Read) -> tuple[ChatRequest, CountBytes] | None:
    """Return the request of an outline, and what counts the bytes of its texts; None if it has to be read in full."""
    bound = recorder.find_outline_bound()
    if bound is None:
        return None
    try:
        outline = body.outline(*bound)
        return None if outline is None else (read(outline[0]), outline[1].count_bytes)
    except (ApiError, RecursionError):
        # The whole body is refused as well, with places in the text and its own values.
        return None
