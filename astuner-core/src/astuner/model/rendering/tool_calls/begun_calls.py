"""Tool calls in pieces: the arguments are passed on while the model writes them (`model.streamed_calls: pieces`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from astuner.model.rendering.decoding import partial_marker_length
from astuner.model.rendering.reply_parser import AnswerParser, CallFormat, Piece, Style
from astuner.model.rendering.tool_calls import sampled_json
from astuner.model.rendering.tool_calls.call_bodies import JsonCalls, NamedJson, TaggedValues, TextValue
from astuner.model.rendering.tool_calls.marked_calls import CallSection, Tools, keep_as_content
from astuner.model.rendering.tool_calls.typed_arguments import encode_arguments
from astuner.model.rendering.tool_calls.unclosed_calls import Llama, MarkedJson

_NAME = r'"(?P<name>[^"\\<>\n]+)"'
_IN_STRING = re.compile(r'\\.|"', re.DOTALL)


@frozen(kw_only=True)
class BegunCall:
    """A call of an offered tool whose arguments have begun."""

    name: str
    id: str = ""
    place: int
    """Where its arguments begin, as JSON; or, if it has `values`, where the last complete value ends."""
    values: str | None = None
    """The complete values as JSON, without the end of the object, where a format carries them as text."""


class PiecewiseParser(AnswerParser):
    """From the beginning of its arguments on a call is a call, whatever follows, so that no answer depends on how it was cut.

    Of several calls in a list or in a section the first one comes in pieces.
    """

    def __init__(self, style: Style, **options: Any) -> None:
        """See `AnswerParser`."""
        super().__init__(style, **options)
        self._heads, self._ends = _write_heads(self._format), _list_closers(self._format)
        self._outside = re.compile("|".join((r'["{}\[\]]', *map(re.escape, self._ends))))
        self._begun: BegunCall | None = None
        self._sent = 0
        """Characters of the arguments that were passed on."""
        self._place = 0
        """How far JSON was scanned."""
        self._depth = 0
        self._quoted = self._ended = False
        """Whether JSON was scanned up to a place in a string; whether its object is complete, or broken by the call's end."""

    def _read_call(self) -> Iterator[Piece]:
        if not self._parallel and self._calls and self._begun is None:
            yield from super()._read_call()
            return
        if self._begun is None and (begun := self._begin_call()):
            self._begun, self._place, self._sent, self._depth, self._quoted, self._ended = begun, begun.place, 0, 0, False, False
            self._calls += 1
            self._gap = ""
            yield Piece("tool_call", "", begun.name, begun.id, open=True)
        if self._begun is not None and self._begun.values is None and not self._ended:
            yield from self._scan()
        if self._begun is None or self._begun.values is not None or self._ended:
            yield from super()._read_call()
        if self._begun is not None and self._begun.values is not None and self._state == "call" and ">" in self._fresh:
            self._begun = self._begin_call() or self._begun
            yield from self._send(self._begun.values or "")

    def _scan(self) -> Iterator[Piece]:
        """Pass on the JSON object up to its end, or to the end of a call that breaks it off."""
        assert self._begun is not None
        held, start = self._held, self._begun.place
        closers = self._ends
        while not self._ended:
            found = (_IN_STRING if self._quoted else self._outside).search(held, self._place)
            if found is None:
                break
            mark = found[0]
            self._ended = mark in closers
            self._place = found.start() if self._ended else found.end()
            if mark == '"':
                self._quoted = not self._quoted
            elif not self._quoted and not self._ended:
                self._depth += 1 if mark in "{[" else -1
                self._ended = not self._depth
        if not self._ended:
            # The last character in a string may be the first of an escape.
            tail = held[self._place :]
            self._place = len(held) - (
                tail.endswith("\\") if self._quoted else bool(closers) and partial_marker_length(tail, closers)
            )
        yield from self._send(held[start : self._place], ended=self._ended)

    def _send(self, arguments: str, *, ended: bool = False) -> Iterator[Piece]:
        fresh, self._sent = arguments[self._sent :], max(self._sent, len(arguments))
        if fresh or ended:
            yield Piece("tool_call", fresh, follows=True, open=not ended)

    def _read(self, *, final: bool) -> Iterator[Piece]:
        begun = self._begun
        if begun is None:
            yield from super()._read(final=final)
            return
        if begun.values is None and not self._ended:
            self._place = len(self._held)
            yield from self._send(self._held[begun.place :], ended=True)
        is_json = begun.values is not None or sampled_json.read_object(self._held[begun.place : self._place]) is not None
        found = self._format.read(self._held, self._tools, final=final, salvage=True) if is_json else keep_as_content("")
        if found is None:
            return
        first, *others = found.pieces
        is_call = first.kind == "tool_call"
        if begun.values is not None:
            begun = self._begin_call() or begun
            self._place = begun.place
            yield from self._send(first.text if is_call else begun.values or "", ended=True)
        self.malformed += found.malformed
        self._begun = None
        if is_call:
            self._held, self._state = self._held[found.end :], "content"
            yield from self._pass_on(others)
        else:
            self._held, self._state = self._held[self._place :], "tail"

    def _begin_call(self) -> BegunCall | None:
        """Return the call that the text begins with; None if it is not certain, or not of an offered tool."""
        head = next((match for pattern in self._heads if (match := re.match(pattern, self._held))), None)
        if head is None:
            return None
        name, body = head["name"].strip(), getattr(self._format, "body", None)
        begun: BegunCall | None = BegunCall(name=name, id=head.groupdict().get("id") or "", place=head.end())
        if isinstance(body, TaggedValues):
            # The name may go on after the text so far.
            begun = _collect_values(body, self._held, name, head.end(), self._tools) if self._held[head.end() :].strip() else None
        return begun if any(tool["function"]["name"] == name for tool in self._tools) else None

    def _read_tail(self) -> Iterator[Piece]:
        """Leave out the brackets and the markers that end a broken call; what else follows is content."""
        closers = self._ends
        while True:
            self._held = self._held.lstrip(" \n\r\t}]`")
            mark = next((mark for mark in closers if self._held.startswith(mark)), None)
            if mark is None:
                break
            self._held = self._held[len(mark) :]
        if self._held and not any(mark.startswith(self._held) for mark in closers):
            self._state = "content"
        yield from ()


def _collect_values(body: TaggedValues, text: str, name: str, place: int, tools: Tools) -> BegunCall | None:
    found: dict[str, TextValue] = {}
    for value in body.iterate_values(text, place, final=False):
        if value.end < 0 or value.key in found:
            break
        found[value.key] = value
        place = value.end
    texts = {key for key, value in found.items() if value.is_text}
    written = encode_arguments(name, ((key, value.text) for key, value in found.items()), tools, texts)
    return BegunCall(name=name, place=place, values=(written or "").removesuffix("}") if found else "")


def _write_heads(call_format: CallFormat) -> tuple[str, ...]:
    """Return patterns of what comes before the arguments of a call; none for formats whose calls come whole."""
    opener = f"(?:{'|'.join(map(re.escape, call_format.openers))})"
    match call_format:
        case CallSection():
            opener = rf"(?:{re.escape(call_format.opener)}\s*)?{re.escape(call_format.call_open)}"
        case Llama():
            return (rf"(?:<\|python_tag\|>)?\s*{_write_members('name', ('parameters', 'arguments'))}",)
        case MarkedJson():
            members = _write_members("name", ("arguments",))
            return rf"{opener}{call_format.named.pattern}", rf"{opener}\s*\[?\s*{members}"
    match getattr(call_format, "body", None):
        case NamedJson() as body:
            return tuple(rf"{opener}{head}\s*(?=\{{)" for head in body.heads)
        case JsonCalls() as body:
            # Of a list, or of the list that is the whole answer.
            listed = r"\[?" if call_format.openers else r"\["
            return (rf"{opener}\s*{listed * body.many}\s*{_write_members(body.name, body.arguments)}",)
        case TaggedValues() as body:
            return (f"{opener}{body.head.pattern}",)
    return ()


def _write_members(name: str, arguments: tuple[str, ...]) -> str:
    if not name:
        return rf"\{{\s*{_NAME}\s*:\s*(?=\{{)"
    # Cohere writes a number before the name.
    keys = "|".join(arguments)
    return rf'\{{\s*(?:"tool_call_id"\s*:\s*"\w*"\s*,\s*)?"{name}"\s*:\s*{_NAME}\s*,\s*"(?:{keys})"\s*:\s*(?=\{{)'


def _list_closers(call_format: CallFormat) -> tuple[str, ...]:
    """Return the markers that end a call, which cannot be part of JSON."""
    own = (call_format.call_close,) if isinstance(call_format, CallSection) else ()
    return tuple(mark for mark in (*call_format.closers, *own) if len(mark) > 1)
