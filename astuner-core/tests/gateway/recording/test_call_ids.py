"""The ids of tool calls: the model's own where it writes one, and never one twice in an answer."""

from __future__ import annotations

from astuner.model.gateway.recording.choice_events import ReplyBuilder
from astuner.model.rendering.reply_parser import Piece


def test_a_call_has_the_id_that_the_model_wrote_unless_it_is_taken() -> None:
    reply = ReplyBuilder(lambda number: f"made{number}")
    for written in ("functions.add:0", "", "functions.add:0"):
        reply.add(Piece("tool_call", "{}", "add", written))
    assert [call["id"] for call in reply.message()["tool_calls"]] == ["functions.add:0", "made1", "made2"]
