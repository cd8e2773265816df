"""Tool calls without a closing marker, which end where their JSON ends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.model.rendering.reply_parser import ParsedCalls, Piece
from astuner.model.rendering.tool_calls import sampled_json
from astuner.model.rendering.tool_calls.marked_calls import keep_as_content

_TAG = "<|python_tag|>"
_BETWEEN = re.compile(r"[\s;]*(?:<\|python_tag\|>)?\s*(?=\{)")
_NAME = re.compile(r'\{\s*"name"\s*:\s*"([^"]*)"')
_NAMED = re.compile(r"\s*([\w.\-]+)\s*(?:\[CALL_ID\]\s*[\w\-]+\s*)?(?:\[ARGS\])?\s*(?=\{)")


@frozen
class Llama:
    """`{"name": …, "parameters": …}` as the whole answer or after `<|python_tag|>`, several with `;` between."""

    opener: str = _TAG
    bare: str = "{"
    closers: str = "}"

    def read(self, text: str, tools: Sequence[Mapping[str, Any]], *, final: bool) -> ParsedCalls | None:
        """Read all calls that follow one another; see `CallFormat`. JSON that is not a call is an ordinary answer."""
        pieces: list[Piece] = []
        place = 0
        end: int | None = None
        while (start := _BETWEEN.match(text, place)) is not None:
            end = sampled_json.find_value_end(text, start.end())
            call = None if end is None else sampled_json.read_call(text[start.end() : end], ("parameters", "arguments"))
            if end is None or call is None:
                break
            pieces.append(Piece("tool_call", call[1], call[0]))
            place = end
        if start is not None:
            if end is None and not final:
                return None
            content = text[place:end]
            malformed = int(_TAG in content or _names_a_tool(text[start.end() :], tools))
            pieces.append(Piece("content", content.lstrip(" \n;") if pieces else content))
            return ParsedCalls(end=place + len(content), pieces=tuple(pieces), malformed=malformed)
        rest = text[place:].lstrip(" \n;")
        if not pieces:
            return keep_as_content(text) if final else None
        if not final and _TAG.startswith(rest):
            # Another call may follow.
            return None
        return ParsedCalls(end=len(text) - len(rest), pieces=tuple(pieces))


def _names_a_tool(text: str, tools: Sequence[Mapping[str, Any]]) -> bool:
    begun = _NAME.match(text)
    return begun is not None and any(tool["function"]["name"] == begun[1] for tool in tools)


@frozen
class Mistral:
    """`[TOOL_CALLS]` and then `[{"name": …, "arguments": …}, …]`, or `name{…}`, or `name[ARGS]{…}`."""

    opener: str = "[TOOL_CALLS]"
    bare: str = ""
    closers: str = "]}"

    def read(self, text: str, tools: Sequence[Mapping[str, Any]], *, final: bool) -> ParsedCalls | None:
        """Read one list of calls, or one call; see `CallFormat`."""
        tag = self.opener
        named = _NAMED.match(text, len(tag))
        start = named.end() if named else len(text) - len(text[len(tag) :].lstrip())
        end = sampled_json.find_value_end(text, start)
        if end is None:
            return keep_as_content(text) if final else None
        if named:
            return ParsedCalls(end=end, pieces=(Piece("tool_call", text[start:end], named[1]),))
        calls = [sampled_json.read_call(element) for element in sampled_json.split_elements(text, start) or [""]]
        if not calls or None in calls:
            return keep_as_content(text[:end])
        return ParsedCalls(end=end, pieces=tuple(Piece("tool_call", call[1], call[0]) for call in calls if call))
