"""Finds messages that a chat template drops: each must appear in the rendered conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from astuner.rendering.errors import bad_request

if TYPE_CHECKING:
    from astuner.schema import Message


def check_contents(messages: Sequence[Message], text: str) -> None:
    """Check that a rendered conversation holds every message; raises ApiError (400) for the first that it drops."""
    reached = 0
    for number, message in enumerate(messages):
        content = message["content"].strip()
        if message["role"] == "assistant":
            # A template may strip old reasoning, and the text next to tool calls; the answer itself must stay.
            content = "" if message.get("tool_calls") else content.rpartition("</think>")[2].strip()
        if content:
            place = _find(content, text, reached)
            if place < 0:
                raise bad_request(
                    f"The model's chat template drops messages[{number}] (role {message['role']}), "
                    "so the model would never see it.",
                    f"messages[{number}]",
                )
            reached = max(reached, place)


def _find(content: str, text: str, reached: int) -> int:
    """Return where a content appears, preferably after the earlier messages; -1 if it is missing."""
    place = text.find(content, reached)
    if place < 0:
        place = text.find(content)
    return place if place >= 0 else text.find(json.dumps(content, ensure_ascii=False)[1:-1])
