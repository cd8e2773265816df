"""Tool calls without a closing marker, which end where their value ends."""

from __future__ import annotations

import re

from attrs import field, frozen

from astuner.model.rendering.reply_parser import ParsedCalls, Piece
from astuner.model.rendering.tool_calls import sampled_json
from astuner.model.rendering.tool_calls.call_bodies import JsonCalls, compile_pattern
from astuner.model.rendering.tool_calls.marked_calls import Body, Tools, keep_as_content
from astuner.model.rendering.tool_calls.written_values import STRING

_TAG = "<|python_tag|>"
_BETWEEN = re.compile(r"[\s;,]*(?:<\|python_tag\|>)?\s*(?=\{)")
_NAME = re.compile(r'\{\s*"name"\s*:\s*"([^"]*)"')
_NAMED = r"\s*(?P<name>[\w.\-]+)\s*(?:\[CALL_ID\]\s*(?P<id>[\w\-]+)\s*)?(?:\[ARGS\])?\s*(?=\{)"
_BRACKET = re.compile(rf"""{STRING.pattern}|[\[\](){{}}'"]""", re.DOTALL)
_READ_LLAMA = JsonCalls(arguments=("parameters", "arguments"))
_READ_JSON = JsonCalls(many=True)


@frozen
class Llama:
    """`{"name": …, "parameters": …}` at the start, after a tag or after a text, several in a row or with `;` between."""

    openers: tuple[str, ...] = (_TAG, '{"name":')
    bare: str = "{"
    closers: tuple[str, ...] = ("}",)

    def read(self, text: str, tools: Tools, *, final: bool, salvage: bool = False) -> ParsedCalls | None:
        """Read all calls that follow one another; see `CallFormat`. JSON that is not a call is an ordinary answer."""
        pieces: list[Piece] = []
        place = 0
        end: int | None = None
        while (start := _BETWEEN.match(text, place)) is not None:
            end = sampled_json.find_value_end(text, start.end())
            read = None if end is None else _READ_LLAMA(text[start.end() : end], tools)
            if end is None or not read:
                break
            pieces += read
            place = end
        if start is not None:
            if end is None and not final:
                return None
            content = text[place:end]
            malformed = int(_TAG in content or _names_a_tool(text[start.end() :], tools))
            pieces.append(Piece("content", content.lstrip(" \n;,") if pieces else content))
            return ParsedCalls(end=place + len(content), pieces=tuple(pieces), malformed=malformed)
        rest = text[place:].lstrip(" \n;,")
        if not pieces:
            return keep_as_content(text) if final else None
        if not final and _TAG.startswith(rest):
            # Another call may follow.
            return None
        return ParsedCalls(end=len(text) - len(rest), pieces=tuple(pieces))


def _names_a_tool(text: str, tools: Tools) -> bool:
    begun = _NAME.match(text)
    return begun is not None and any(tool["function"]["name"] == begun[1] for tool in tools)


@frozen
class MarkedJson:
    """A marker, and then a list of calls as JSON, or one call, or its name and its arguments."""

    openers: tuple[str, ...]
    named: re.Pattern[str] = field(default=r"(?!)", converter=compile_pattern)
    """The name and perhaps the id of a call, before its arguments."""
    bare: str = ""
    closers: tuple[str, ...] = ("]", "}")

    def read(self, text: str, tools: Tools, *, final: bool, salvage: bool = False) -> ParsedCalls | None:
        """Read one list of calls, or one call; see `CallFormat`."""
        tag = next(opener for opener in self.openers if text.startswith(opener))
        named = self.named.match(text, len(tag))
        start = named.end() if named else len(text) - len(text[len(tag) :].lstrip())
        end = sampled_json.find_value_end(text, start)
        if end is None:
            return keep_as_content(text) if final else None
        if named:
            return ParsedCalls(end=end, pieces=(Piece("tool_call", text[start:end], named[1], named[2] or ""),))
        read = _READ_JSON(text[start:end], tools)
        return ParsedCalls(end=end, pieces=read) if read else keep_as_content(text[:end])


@frozen
class BareList:
    """A list of calls as the whole answer. A list of anything else is an ordinary answer."""

    body: Body
    openers: tuple[str, ...] = ()
    bare: str = "["
    closers: tuple[str, ...] = ("]",)

    def read(self, text: str, tools: Tools, *, final: bool, salvage: bool = False) -> ParsedCalls | None:
        """Read one list; see `CallFormat`."""
        start = len(text) - len(text.lstrip())
        end = _find_bracket_end(text, start)
        if end is None and not final:
            return None
        read = self.body(text[start:end], tools) if end else None
        if read:
            return ParsedCalls(end=end or len(text), pieces=read)
        begins = (f"{mark}{tool['function']['name']}" for tool in tools for mark in ("[", '[{"name": "'))
        malformed = int(text[start:].startswith(tuple(begins)))
        return ParsedCalls(end=end or len(text), pieces=(Piece("content", text[:end]),), malformed=malformed)


def _find_bracket_end(text: str, place: int) -> int | None:
    """Return the end of the list that begins at a place; None if it is cut off."""
    depth = 0
    for found in _BRACKET.finditer(text, place):
        mark = found[0]
        if mark in ("'", '"'):
            return None
        depth += (mark in "[({") - (mark in "])}")
        if not depth:
            return found.end()
    return None


MISTRAL = MarkedJson(("[TOOL_CALLS]",), _NAMED)
"""`[TOOL_CALLS]` and then `[{"name": …, "arguments": …}, …]`, or `name{…}`, or `name[CALL_ID]id[ARGS]{…}`."""
