"""Tool calls between two markers, alone or several in a section."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.model.rendering.reply_parser import ParsedCalls, Piece

Tools = Sequence[Mapping[str, Any]]
Body = Callable[[str, Tools], "tuple[Piece, ...] | None"]
"""Reads the text between a call's markers: the calls in it, None if it is unreadable, or CUT."""

CUT: tuple[Piece, ...] = ()
"""The text ends inside a value, so the closing marker after it belongs to the value."""


def keep_as_content(text: str) -> ParsedCalls:
    """Return an unreadable call as content."""
    return ParsedCalls(end=len(text), pieces=(Piece("content", text),), malformed=1)


@frozen
class TaggedCalls:
    """Calls that are each enclosed in an opening and a closing marker."""

    marks: tuple[tuple[str, str], ...]
    """The pairs of markers; the first is the family's own, the others are frequent slips or other releases."""
    body: Body
    bare: str = ""

    @property
    def openers(self) -> tuple[str, ...]:
        """See `CallFormat`."""
        return tuple(opener for opener, _ in self.marks)

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallFormat`."""
        return tuple(closer for _, closer in self.marks)

    def read(self, text: str, tools: Tools, *, final: bool, salvage: bool = False) -> ParsedCalls | None:
        """Read what one pair of markers encloses; see `CallFormat`."""
        opener, close = next(pair for pair in self.marks if text.startswith(pair[0]))
        found = read_to_closer(text, len(opener), close, self.body, tools)
        if found is None and not final:
            return None
        if found is None:
            end = text.find(close, len(opener))
            read = self.body(text[len(opener) :], tools) if salvage and end < 0 else None
            end = len(text) if end < 0 else end + len(close)
        else:
            end, read = found
        return ParsedCalls(end=end, pieces=read) if read else keep_as_content(text[:end])


@frozen
class CallSection:
    """Calls between their own markers inside a section, which is read once it is complete."""

    opener: str
    close: str
    call_open: str
    call_close: str
    body: Body
    bare: str = ""

    @property
    def openers(self) -> tuple[str, ...]:
        """See `CallFormat`. A call without its section is a frequent slip."""
        return (self.opener, self.call_open)

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallFormat`."""
        return (self.close, self.call_close)

    def read(self, text: str, tools: Tools, *, final: bool, salvage: bool = False) -> ParsedCalls | None:
        """Read one section, or one call; see `CallFormat`. A section that was cut off keeps its complete calls."""
        if not text.startswith(self.opener):
            return TaggedCalls(((self.call_open, self.call_close),), self.body).read(text, tools, final=final, salvage=salvage)
        pieces: list[Piece] = []
        malformed = 0
        place = len(self.opener)
        while True:
            start, stop = text.find(self.call_open, place), text.find(self.close, place)
            if stop < 0 and not final:
                return None
            inside = start >= 0 and (stop < 0 or start < stop)
            between = text[place : start if inside else stop if stop >= 0 else len(text)]
            if between.strip():
                pieces.append(Piece("content", between.strip()))
            if not inside:
                end = len(text) if stop < 0 else stop + len(self.close)
                break
            found = read_to_closer(text, start + len(self.call_open), self.call_close, self.body, tools)
            if found is None and not final:
                return None
            place, read = found or self._give_up(text, start, tools, salvage=salvage)
            malformed += not read
            pieces += read or [Piece("content", text[start:place])]
        if not any(piece.kind == "tool_call" for piece in pieces):
            return ParsedCalls(end=end, pieces=(Piece("content", text[:end]),), malformed=max(1, malformed))
        return ParsedCalls(end=end, pieces=tuple(pieces), malformed=malformed)

    def _give_up(self, text: str, start: int, tools: Tools, *, salvage: bool) -> tuple[int, tuple[Piece, ...] | None]:
        """Return the end of a call that no closing marker completes, and the call if it can be salvaged."""
        ends = [place for mark in (self.call_close, self.close) if (place := text.find(mark, start)) >= 0]
        end = min(ends, default=len(text))
        if salvage and not text.startswith(self.call_close, end):
            return end, self.body(text[start + len(self.call_open) : end], tools)
        return end + len(self.call_close) * text.startswith(self.call_close, end), None


def read_to_closer(text: str, start: int, close: str, body: Body, tools: Tools) -> tuple[int, tuple[Piece, ...] | None] | None:
    """Read a call up to the first closing marker that is not inside a value; return where it ends, and what was read.

    None if there is no such marker yet. If what then lies before it is unreadable, a value was not closed: the call ends at
    its first closing marker.
    """
    first = end = text.find(close, start)
    while end >= 0:
        read = body(text[start:end], tools)
        if read is None:
            return first + len(close), None
        if read != CUT:
            return end + len(close), read
        end = text.find(close, end + len(close))
    return None
