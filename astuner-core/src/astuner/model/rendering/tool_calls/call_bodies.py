"""Readers of the text between the markers of a tool call, one for each notation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from attrs import field, frozen

from astuner.model.rendering.reply_parser import Piece
from astuner.model.rendering.tool_calls import sampled_json
from astuner.model.rendering.tool_calls.marked_calls import CUT, Tools
from astuner.model.rendering.tool_calls.typed_arguments import encode_arguments

_CDATA = ("<![CDATA[", "]]>")
_SPACE = re.compile(r"\s*")


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern, typed for attrs."""
    return re.compile(pattern)


@frozen(kw_only=True)
class JsonCalls:
    """`{"name": …, "arguments": …}`."""

    name: str = "name"
    """The key of the name; empty if the only key is the name itself, and its value the arguments."""
    arguments: tuple[str, ...] = ("arguments",)
    """The keys of the arguments."""
    many: bool = False
    """Whether it may be a list of calls, or several in a row."""

    def __call__(self, block: str, tools: Tools) -> tuple[Piece, ...] | None:
        """Read the calls; see `Body`."""
        texts = sampled_json.split_values(block) if self.many else [block]
        calls = [sampled_json.read_call(text, self.name, self.arguments) for text in texts or ()]
        if not calls or None in calls:
            return CUT if sampled_json.ends_in_string(block) else None
        return tuple(call for call in calls if call)


@frozen
class NamedJson:
    """A name, and then the arguments as a JSON object."""

    heads: tuple[str, ...]
    """Patterns of what comes before the arguments; groups `name` and possibly `id`."""
    tail: str = ""
    """What comes after the arguments."""

    def __call__(self, block: str, tools: Tools) -> tuple[Piece, ...] | None:
        """Read one call; see `Body`."""
        head = next((found for pattern in self.heads if (found := re.match(pattern, block))), None)
        if head is None:
            return None
        rest = block[head.end() :].strip()
        if self.tail and "```" in head[0]:
            rest = rest.removesuffix(self.tail)
        arguments = sampled_json.read_object(rest)
        if arguments is None:
            return CUT if sampled_json.ends_in_string(rest) else None
        groups = head.groupdict()
        return (Piece("tool_call", arguments, groups["name"].strip(), groups.get("id") or ""),)


class TextValue(NamedTuple):
    """A value that a format carries as plain text."""

    key: str
    text: str
    is_text: bool
    """Whether it is a text, whatever the schema says."""
    end: int
    """The place after its closing tag; -1 if it is cut off."""


@frozen(kw_only=True)
class TaggedValues:
    """A name, and then each argument between tags, as plain text."""

    head: re.Pattern[str] = field(converter=compile_pattern)
    """What comes before the arguments; the group `name` is the name."""
    key: re.Pattern[str] = field(converter=compile_pattern)
    """What comes before a value; groups `key`, and possibly `type`, which is `true` or `string` for a text."""
    end: str
    """What comes after a value."""
    last: str = ""
    """What comes after the last value."""
    lines: bool = True
    """Whether each argument begins on a line of its own."""
    padded: bool = False
    """Whether a value is put on lines of its own, without being part of it."""

    def __call__(self, block: str, tools: Tools) -> tuple[Piece, ...] | None:
        """Read one call; see `Body`. A value whose closing tag was forgotten ends where the next argument begins."""
        head = self.head.match(block)
        if head is None:
            return None
        found = list(self.iterate_values(block, head.end(), final=True))
        if found and found[-1].end < 0:
            return CUT
        if block[found[-1].end if found else head.end() :].strip() not in ("", self.last):
            return None
        name = head["name"].strip()
        arguments = encode_arguments(
            name, ((value.key, value.text) for value in found), tools, {value.key for value in found if value.is_text}
        )
        return None if arguments is None else (Piece("tool_call", arguments, name),)

    def iterate_values(self, block: str, place: int, *, final: bool) -> Iterator[TextValue]:
        """Yield the values from a place on; the last one has no end if the block ends inside it.

        `final`: the block is the whole call, so that the end of the call ends a value, too.
        """
        while found := self.key.match(block, _SPACE.match(block, place).end()):  # type: ignore[union-attr] # it always matches
            end, place = self._find_value_end(block, found.end(), final=final)
            text = self._clean(block[found.end() : end]) if end >= 0 else ""
            yield TextValue(found["key"].strip(), text, found.groupdict().get("type") in ("true", "string"), place)
            if place < 0:
                return

    def _find_value_end(self, block: str, start: int, *, final: bool) -> tuple[int, int]:
        """Return the end of a value, and of its closing tag; -1 if the block ends inside it."""
        quoted = block.startswith(_CDATA[0], start)
        end = block.find(self.end, block.find(_CDATA[1], start) if quoted else start)
        for again in () if quoted else self.key.finditer(block, start, len(block) if end < 0 else end):
            if not self.lines or block[again.start() - 1] == "\n":
                return again.start() - self.lines, again.start()
        if end >= 0:
            return end, end + len(self.end)
        written = block.rstrip()
        if final and self.last and written.endswith(self.last):
            place = len(written) - len(self.last)
            return place - (block[place - 1] == "\n"), place
        return -1, -1

    def _clean(self, text: str) -> str:
        if text.startswith(_CDATA[0]) and text.endswith(_CDATA[1]):
            return text[len(_CDATA[0]) : -len(_CDATA[1])]
        return text.removeprefix("\n").removesuffix("\n") if self.padded else text
