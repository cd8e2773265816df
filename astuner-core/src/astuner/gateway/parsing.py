"""Sampled text to a reply: content, reasoning, tool calls. One incremental parser serves streams and whole answers alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Literal, Protocol

from attrs import frozen

from astuner.gateway.decoding import begun


@frozen
class Piece:
    """A part of a reply that will not change any more."""

    kind: Literal["content", "reasoning", "tool_call"]
    text: str
    """The text, or the arguments of a tool call as the model wrote them."""
    name: str = ""
    """Of the tool."""


class ReplyParser(Protocol):
    """Reads one answer. Other formats of tool calls are other classes, chosen by the renderer."""

    malformed: int
    """Tool calls that could not be read; they stay in the content as they were written."""
    dropped: int
    """Tool calls beyond the first, where only one was wanted."""

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield what is certain after some more text."""
        ...

    def finish(self) -> Iterator[Piece]:
        """Yield what was held back, at the end of the text."""
        ...


THINK, THINK_END = "<think>", "</think>"
CALL, CALL_END = "<tool_call>", "</tool_call>"


class HermesParser:
    """Reads `<think>…</think>` at the start, and `<tool_call>{"name": …, "arguments": …}</tool_call>` anywhere after it."""

    def __init__(self, *, tools: bool, parallel: bool = True, thinking: bool = False) -> None:
        """`tools`: read tool calls. `parallel`: more than one. `thinking`: the prompt already opened the reasoning."""
        self.malformed = 0
        self.dropped = 0
        self._tools = tools
        self._parallel = parallel
        self._state = "reasoning" if thinking else "start"
        self._held = ""
        self._gap = ""
        self._calls = 0
        self._said = False

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield what is certain after some more text."""
        self._held += text
        state = ""
        while state != self._state:
            state = self._state
            yield from getattr(self, f"_{state}")()

    def finish(self) -> Iterator[Piece]:
        """Yield what was held back, at the end of the text."""
        rest, self._held = self._held, ""
        if self._state == "reasoning" and rest.strip():
            yield Piece("reasoning", rest.rstrip() if self._said else rest.strip())
        elif self._state == "call":
            self.malformed += 1
            yield Piece("content", f"{self._gap}{CALL}{rest}")
        elif self._state in ("start", "content"):
            if self._calls and not (self._said and rest.strip()):
                rest = rest.strip()
            if rest:
                yield Piece("content", rest)

    def _start(self) -> Iterator[Piece]:
        text = self._held.lstrip()
        if text.startswith(THINK):
            self._held = text[len(THINK) :]
            self._state = "reasoning"
        elif not THINK.startswith(text):
            self._state = "content"
        yield from ()

    def _reasoning(self) -> Iterator[Piece]:
        text, end, rest = self._held.partition(THINK_END)
        if not self._said:
            text = text.lstrip()
        if end:
            self._held = rest
            self._state = "after"
            self._said = False
            if text.rstrip():
                yield Piece("reasoning", text.rstrip())
            return
        certain = text[: len(text) - begun(text, (THINK_END,))].rstrip()
        self._held = text[len(certain) :]
        if certain:
            self._said = True
            yield Piece("reasoning", certain)

    def _after(self) -> Iterator[Piece]:
        self._held = self._held.lstrip()
        if self._held:
            self._state = "content"
        yield from ()

    def _content(self) -> Iterator[Piece]:
        if not self._tools:
            certain, self._held = self._held, ""
        else:
            text, call, rest = self._held.partition(CALL)
            if call:
                self._state = "call"
                certain, self._held = text.rstrip(), rest
                self._gap = text[len(certain) :]
            else:
                certain = text[: len(text) - begun(text, (CALL,))].rstrip()
                self._held = text[len(certain) :]
        if self._calls and not self._said:
            certain = certain.lstrip()
        if certain:
            self._said = True
            yield Piece("content", certain)

    def _call(self) -> Iterator[Piece]:
        block, end, rest = self._held.partition(CALL_END)
        if not end:
            return
        self._held = rest
        self._state = "content"
        read = read_call(block)
        if read is None:
            self.malformed += 1
            self._said = True
            yield Piece("content", f"{self._gap}{CALL}{block}{CALL_END}")
        elif self._calls and not self._parallel:
            self.dropped += 1
        else:
            self._calls += 1
            yield Piece("tool_call", read[1], read[0])


_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def read_call(block: str) -> tuple[str, str] | None:
    """Return the name and the arguments of a tool call, the latter as the model wrote them; None when it cannot be read."""
    try:
        members = dict(_members(block.strip()))
        name = json.loads(members["name"])
        arguments = json.loads(members["arguments"])
    except (ValueError, KeyError, IndexError, RecursionError):
        return None
    if not isinstance(name, str) or not name:
        return None
    if isinstance(arguments, dict):
        return name, members["arguments"]
    # Some models write the arguments as a string that holds JSON.
    return (name, arguments or "{}") if isinstance(arguments, str) else None


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield the members of a JSON object, each value as it is written; raises ValueError on anything else."""
    place = _expect(text, 0, "{")
    while True:
        key, place = _DECODER.raw_decode(text, place)
        if not isinstance(key, str):
            raise ValueError("a key must be a string")
        start = _expect(text, _SPACE.match(text, place).end(), ":")  # type: ignore[union-attr] # it always matches
        _, place = _DECODER.raw_decode(text, start)
        yield key, text[start:place]
        place = _SPACE.match(text, place).end()  # type: ignore[union-attr] # it always matches
        if text[place] == "}":
            if place + 1 != len(text):
                raise ValueError("text after the object")
            return
        place = _expect(text, place, ",")


def _expect(text: str, place: int, character: str) -> int:
    if text[place] != character:
        raise ValueError(f"expected {character}")
    return _SPACE.match(text, place + 1).end()  # type: ignore[union-attr] # it always matches
