"""The channels of gpt-oss: analysis is reasoning, final is content, commentary to a function is a tool call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from astuner.model.rendering.decoding import partial_marker_length
from astuner.model.rendering.reply_parser import Piece
from astuner.model.rendering.tool_calls import sampled_json

_MESSAGE = "<|message|>"
_OPENERS = ("<|channel|>", "<|start|>", "to=")
"""What a header begins with; for the first one the prompt already holds `<|start|>assistant`."""
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_BREAKS = (*_ENDS, "<|start|>", "<|channel|>")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")


class HarmonyParser:
    """Reads `<|channel|>name to=recipient<|message|>text<|end|>`, several of them with `<|start|>assistant` between."""

    def __init__(self, prompt: str, *, tools: Sequence[Mapping[str, Any]], parallel: bool = True) -> None:
        """No prompt opens a channel. `tools`: those whose calls are read. `parallel`: more than one call."""
        self.malformed = 0
        self.dropped = 0
        self._tools = tools
        self._parallel = parallel
        self._state = "between"
        self._held = ""
        self._header = ""
        self._kind: Literal["content", "reasoning"] = "content"
        self._started_kinds: set[str] = set()
        self._begins = True
        self._calls = 0

    @property
    def reasons(self) -> bool:
        """Whether the text ends inside reasoning."""
        return self._state == "text" and self._kind == "reasoning"

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield what is certain after more text."""
        self._held += text
        state = ""
        while state != self._state:
            state = self._state
            yield from getattr(self, f"_in_{state}")()

    def finish(self) -> Iterator[Piece]:
        """Yield what was held back, at the end of the text."""
        rest, self._held = self._held, ""
        if self._state == "call":
            yield from self._emit_call(rest, "")
        elif self._state == "text":
            yield from self._emit_text(rest)
        elif self._state == "between":
            yield from self._emit_text(rest.strip())
        else:
            # A header without a text.
            self.malformed += bool(self._tools and _RECIPIENT.search(rest))
            self._enter("content")
            yield from self._emit_text(rest)

    def _in_between(self) -> Iterator[Piece]:
        text = self._held.lstrip()
        if text.startswith(_OPENERS):
            self._held = text
            self._state = "header"
        elif text and not any(opener.startswith(text) for opener in _OPENERS):
            # No channel was named: the text is an answer.
            self._enter("content")
        yield from ()

    def _in_header(self) -> Iterator[Piece]:
        header, found, rest = self._held.partition(_MESSAGE)
        if found:
            self._header, self._held = header + found, rest
            channel = _CHANNEL.search(header)
            if _RECIPIENT.search(header):
                self._state = "call"
            else:
                self._enter("reasoning" if channel and channel[1] == "analysis" else "content")
        yield from ()

    def _enter(self, kind: Literal["content", "reasoning"]) -> None:
        self._state = "text"
        self._kind = kind
        self._begins = True

    def _in_text(self) -> Iterator[Piece]:
        end = _find_first(self._held, _BREAKS)
        if end is None:
            place = len(self._held) - partial_marker_length(self._held, _BREAKS)
            certain, self._held = self._held[:place], self._held[place:]
        else:
            marker = self._held[end:].partition("|>")[0] + "|>"
            certain, self._held = self._held[:end], self._held[end + len(marker) if marker in _ENDS else end :]
            self._state = "between"
        yield from self._emit_text(certain)

    def _in_call(self) -> Iterator[Piece]:
        end = _find_first(self._held, _ENDS)
        if end is not None:
            marker = self._held[end:].partition("|>")[0] + "|>"
            body, self._held = self._held[:end], self._held[end + len(marker) :]
            self._state = "between"
            yield from self._emit_call(body, marker)

    def _emit_call(self, body: str, marker: str) -> Iterator[Piece]:
        recipient = _RECIPIENT.search(self._header)
        arguments = sampled_json.read_object(body)
        if recipient is None or arguments is None or not self._tools:
            self.malformed += bool(self._tools)
            self._enter("content")
            self._state = "between"
            yield from self._emit_text(self._header + body + marker)
        elif self._calls and not self._parallel:
            self.dropped += 1
        else:
            self._calls += 1
            yield Piece("tool_call", arguments, recipient[1].removeprefix("functions."))

    def _emit_text(self, text: str) -> Iterator[Piece]:
        if text:
            # Messages of one channel are lines of one text.
            joined = "\n" + text if self._begins and self._kind in self._started_kinds else text
            self._begins = False
            self._started_kinds.add(self._kind)
            yield Piece(self._kind, joined)


def _find_first(text: str, markers: Sequence[str]) -> int | None:
    return min((place for place in map(text.find, markers) if place >= 0), default=None)
