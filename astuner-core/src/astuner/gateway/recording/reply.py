"""The reply of a running call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.rendering.reply_parser import Piece


class ReplyBuilder:
    """Collects the pieces of an answer."""

    def __init__(self, tool_call_id: Callable[[int], str]) -> None:
        """`tool_call_id` makes the id of the n-th tool call."""
        self._tool_call_id = tool_call_id
        self._texts: dict[str, list[str]] = {"content": [], "reasoning": []}
        self.calls: list[dict[str, Any]] = []
        """The tool calls so far."""

    def add(self, piece: Piece) -> Mapping[str, Any]:
        """Add a piece; return it as the delta of a stream."""
        if piece.kind == "tool_call":
            number = len(self.calls)
            call = {
                "id": self._tool_call_id(number),
                "type": "function",
                "function": {"name": piece.name, "arguments": piece.text},
            }
            self.calls.append(call)
            return {"tool_calls": [{"index": number, **call}]}
        self._texts[piece.kind].append(piece.text)
        return {"content" if piece.kind == "content" else "reasoning_content": piece.text}

    def message(self) -> dict[str, Any]:
        """Return the reply for the client."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts["content"]) or None}
        if self._texts["reasoning"]:
            message["reasoning_content"] = "".join(self._texts["reasoning"])
        if self.calls:
            message["tool_calls"] = self.calls
        return message
