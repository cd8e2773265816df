"""What a rendered conversation says of its messages: each must be in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from astuner.gateway.errors import bad_request

if TYPE_CHECKING:
    from astuner.schema import Message


def find_contents(messages: Sequence[Message], text: str, found: Sequence[int] = ()) -> list[int]:
    """Return for each message the characters of the text after which it and all before it were found.

    `found` is the beginning of the answer, where it is known. Raises ApiError (400) for a message that is missing.
    """
    ends = list(found)
    reached = ends[-1] if ends else 0
    for number, message in enumerate(islice(messages, len(ends), None), len(ends)):
        content = message["content"].strip()
        if message["role"] == "assistant":
            # A template may strip old reasoning, and the text beside tool calls; an answer itself must stay.
            content = "" if message.get("tool_calls") else content.rpartition("</think>")[2].strip()
        if content:
            place, length = _find(content, text, reached)
            if place < 0:
                raise bad_request(
                    f"The model's chat template drops messages[{number}] (role {message['role']}), "
                    "so the model would never see it.",
                    f"messages[{number}]",
                )
            reached = max(reached, place)
            end = place + length
        else:
            end = 0
        ends.append(max(end, ends[-1]) if ends else end)
    return ends


def _find(content: str, text: str, reached: int) -> tuple[int, int]:
    """Return where a content stands, best where the messages before it end, and how long it is there."""
    place = text.find(content, reached)
    if place < 0:
        place = text.find(content)
    if place >= 0:
        return place, len(content)
    escaped = json.dumps(content, ensure_ascii=False)[1:-1]
    return text.find(escaped), len(escaped)
