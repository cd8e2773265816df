"""Tool calls between two markers, alone or several in a section."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.model.rendering.reply_parser import ParsedCalls, Piece

Body = Callable[[str, Sequence[Mapping[str, Any]]], "tuple[str, str] | None"]
"""Reads the text between a call's markers into name and arguments; None if it cannot."""


def keep_as_content(text: str) -> ParsedCalls:
    """Return an unreadable call as content."""
    return ParsedCalls(end=len(text), pieces=(Piece("content", text),), malformed=1)


@frozen
class TaggedCalls:
    """Calls that are each enclosed in an opening and a closing marker."""

    opener: str
    close: str
    body: Body
    bare: str = ""
    closers: str = ">"

    def read(self, text: str, tools: Sequence[Mapping[str, Any]], *, final: bool) -> ParsedCalls | None:
        """Read one call; see `CallFormat`."""
        end = text.find(self.close, len(self.opener))
        if end < 0:
            return keep_as_content(text) if final else None
        read = self.body(text[len(self.opener) : end], tools)
        end += len(self.close)
        if read is None:
            return keep_as_content(text[:end])
        return ParsedCalls(end=end, pieces=(Piece("tool_call", read[1], read[0]),))


@frozen
class CallSection:
    """Calls between their own markers inside a section, which is read once it is complete."""

    opener: str
    close: str
    call_open: str
    call_close: str
    body: Body
    bare: str = ""
    closers: str = ">"

    def read(self, text: str, tools: Sequence[Mapping[str, Any]], *, final: bool) -> ParsedCalls | None:
        """Read one section; see `CallFormat`. A section that was cut off keeps its complete calls."""
        inner_end = text.find(self.close, len(self.opener))
        if inner_end < 0 and not final:
            return None
        end = len(text) if inner_end < 0 else inner_end + len(self.close)
        inner = text[len(self.opener) :] if inner_end < 0 else text[len(self.opener) : inner_end]
        pieces, malformed, place = [], 0, 0
        while (start := inner.find(self.call_open, place)) >= 0:
            stop = inner.find(self.call_close, start)
            after = len(inner) if stop < 0 else stop + len(self.call_close)
            read = None if stop < 0 else self.body(inner[start + len(self.call_open) : stop], tools)
            if inner[place:start].strip():
                pieces.append(Piece("content", inner[place:start].strip()))
            if read is None:
                malformed += 1
                pieces.append(Piece("content", inner[start:after]))
            else:
                pieces.append(Piece("tool_call", read[1], read[0]))
            place = after
        if inner[place:].strip():
            pieces.append(Piece("content", inner[place:].strip()))
        if not any(piece.kind == "tool_call" for piece in pieces):
            return ParsedCalls(end=end, pieces=(Piece("content", text[:end]),), malformed=max(1, malformed))
        return ParsedCalls(end=end, pieces=tuple(pieces), malformed=malformed)
