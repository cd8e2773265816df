"""Sampled text to a reply: content, reasoning, tool calls. One incremental parser serves streams and whole answers alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from attrs import field, frozen

from astuner.model.rendering.decoding import partial_marker_length


@frozen
class Piece:
    """A part of a reply that is final."""

    kind: Literal["content", "reasoning", "tool_call"]
    text: str
    """The text, or the arguments of a tool call: verbatim if they are JSON, else encoded as JSON."""
    name: str = ""
    """Name of the tool."""
    id: str = ""
    """The id that the model wrote for the call, if its format has one."""
    follows: bool = False
    """Whether it continues the arguments of the last call."""
    open: bool = False
    """Whether more of the arguments may follow."""


class ReplyParser(Protocol):
    """Reads one answer. Each format of tool calls has its own, chosen by the renderer."""

    malformed: int
    """Unreadable tool calls; they stay in the content as written."""
    dropped: int
    """Tool calls beyond the first, if only one was allowed."""

    @property
    def reasons(self) -> bool:
        """Whether the text ends inside reasoning."""

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield what is certain after more text."""

    def finish(self) -> Iterator[Piece]:
        """Yield what was held back, at the end of the text."""


@frozen(kw_only=True)
class ParsedCalls:
    """The tool calls at the start of a text."""

    end: int
    """Where it ends."""
    pieces: tuple[Piece, ...]
    """The calls, and unreadable ones as content."""
    malformed: int = 0


class CallFormat(Protocol):
    """How a family of models writes tool calls."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The strings that begin a call, or a section of calls."""

    @property
    def bare(self) -> str:
        """The character that begins a call when an answer begins with it, or nothing."""

    @property
    def closers(self) -> tuple[str, ...]:
        """The strings with which a call can end."""

    def read(self, text: str, tools: Sequence[Mapping[str, Any]], *, final: bool, salvage: bool = False) -> ParsedCalls | None:
        """Read the calls at the start of a text; None if more text is needed, which `final` rules out.

        `salvage`: at the end of an answer, a call without its closing marker is read if its arguments are complete.
        """


@frozen(kw_only=True)
class Style:
    """How a family writes its answers; makes the parsers of them."""

    calls: CallFormat
    think: tuple[str, str] = field(default=("<think>", "</think>"))
    """The markers around the reasoning, at the start of an answer."""
    frames: tuple[str, ...] = ()
    """The markers around the text of an answer, which are not part of it."""
    splits: bool = True
    """Whether reasoning is separate from the content; otherwise it stays there as written."""
    salvage: bool = False
    """Whether a call that breaks off after its arguments is read."""
    make_parser: Callable[..., ReplyParser] | None = None
    """Makes the parsers, of a kind other than `AnswerParser`."""

    def __call__(self, prompt: str, *, tools: Sequence[Mapping[str, Any]], parallel: bool) -> ReplyParser:
        """Return a parser for the answer to a rendered prompt."""
        thinking = prompt.rstrip().endswith(self.think[0].rstrip())
        return (self.make_parser or AnswerParser)(self, tools=tools, parallel=parallel, thinking=thinking)


class AnswerParser:
    """Reads reasoning at the start of an answer, and tool calls anywhere after it.

    No call is read from reasoning, whether it is split off or stays in the content.
    """

    def __init__(
        self, style: Style, *, tools: Sequence[Mapping[str, Any]], parallel: bool = True, thinking: bool = False
    ) -> None:
        """`tools`: those whose calls are read. `parallel`: more than one call. `thinking`: the prompt opened the reasoning."""
        self.malformed = 0
        self.dropped = 0
        self._format = style.calls
        self._salvage = style.salvage
        self._frames = style.frames
        self._markers = (*(style.calls.openers if tools else ()), *style.frames)
        self._longest_closer = max(map(len, style.calls.closers))
        self._think, self._think_end = style.think
        self._tools = tools
        self._parallel = parallel
        self._thinks = "reasoning" if style.splits else "thought"
        self._state = self._thinks if thinking else "start"
        self._held = ""
        self._fresh = ""
        self._gap = ""
        self._calls = 0
        self._has_text = False

    @property
    def reasons(self) -> bool:
        """Whether the text ends inside reasoning."""
        return self._state == self._thinks

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield what is certain after more text."""
        self._held += text
        self._fresh = text
        yield from self._proceed()

    def finish(self) -> Iterator[Piece]:
        """Yield what was held back, at the end of the text."""
        while self._state == "call":
            yield from self._read(final=True)
            yield from self._proceed()
        rest, self._held = self._held, ""
        if self._state == "reasoning" and rest.strip():
            yield Piece("reasoning", rest.rstrip() if self._has_text else rest.strip())
        elif self._state != "reasoning":
            if self._calls and not (self._has_text and rest.strip()):
                rest = rest.strip()
            if rest:
                yield Piece("content", rest)

    def _proceed(self) -> Iterator[Piece]:
        state = ""
        while state != self._state:
            state = self._state
            yield from getattr(self, f"_read_{state}")()

    def _read_start(self) -> Iterator[Piece]:
        text = self._held.lstrip()
        if text.startswith(self._think):
            if self._thinks == "reasoning":
                self._held = text[len(self._think) :]
            self._state = self._thinks
        elif self._thinks == "reasoning" and text.startswith(self._think_end):
            # Some templates begin an answer without reasoning with the end of it.
            self._held = text[len(self._think_end) :]
            self._state = "after"
        elif not any(marker.startswith(text) for marker in (self._think, self._think_end)):
            self._begin(text)
        yield from ()

    def _read_reasoning(self) -> Iterator[Piece]:
        text, end, rest = self._held.partition(self._think_end)
        if not self._has_text:
            text = text.lstrip()
        if end:
            self._held = rest
            self._state = "after"
            self._has_text = False
            if text.rstrip():
                yield Piece("reasoning", text.rstrip())
            return
        certain = text[: len(text) - partial_marker_length(text, (self._think_end,))].rstrip()
        self._held = text[len(certain) :]
        if certain:
            self._has_text = True
            yield Piece("reasoning", certain)

    def _read_thought(self) -> Iterator[Piece]:
        """Pass reasoning on as content, its markers included."""
        place = self._held.find(self._think_end)
        if place >= 0:
            end = place + len(self._think_end)
            self._state = "thought_end"
        else:
            end = len(self._held) - partial_marker_length(self._held, (self._think_end, *self._frames))
        certain, self._held = self._held[:end], self._held[end:]
        certain = self._drop_frames(certain)
        if certain:
            self._has_text = True
            yield Piece("content", certain)

    def _drop_frames(self, text: str) -> str:
        for frame in self._frames:
            text = text.replace(frame, "")
        return text

    def _read_thought_end(self) -> Iterator[Piece]:
        text = self._held.lstrip()
        if text:
            self._begin(text)
        yield from ()

    def _read_after(self) -> Iterator[Piece]:
        self._held = self._held.lstrip()
        if self._held:
            self._begin(self._held)
        yield from ()

    def _begin(self, text: str) -> None:
        self._state = "content"
        if self._tools and self._format.bare and text.startswith(self._format.bare):
            self._enter_call(len(self._held) - len(text))

    def _read_content(self) -> Iterator[Piece]:
        while self._state == "content":
            place, marker = _find_first(self._held, self._markers)
            if marker and marker not in self._frames:
                certain = self._held[:place].rstrip()
                self._enter_call(place)
                self._gap = self._gap[len(certain) :]
            elif marker:
                certain, self._held = self._held[:place], self._held[place + len(marker) :]
                if self._format.bare and not (certain.strip() or self._has_text or self._calls):
                    # What begins behind the marker may be a call.
                    self._state, certain = "after", ""
            elif self._markers:
                certain = self._held[: len(self._held) - partial_marker_length(self._held, self._markers)].rstrip()
                self._held = self._held[len(certain) :]
            else:
                certain, self._held = self._held, ""
            if self._calls and not self._has_text:
                certain = certain.lstrip()
            if certain:
                self._has_text = True
                yield Piece("content", certain)
            if not marker:
                return

    def _enter_call(self, place: int) -> None:
        self._state = "call"
        self._gap, self._held = self._held[:place], self._held[place:]
        self._fresh = self._held

    def _read_call(self) -> Iterator[Piece]:
        # Reading again is useful only once a possible end of a call has arrived.
        fresh = self._held[-len(self._fresh) - self._longest_closer :]
        if any(closer in fresh for closer in self._format.closers):
            yield from self._read(final=False)

    def _read(self, *, final: bool) -> Iterator[Piece]:
        found = self._format.read(self._held, self._tools, final=final, salvage=self._salvage)
        if found is None:
            return
        self._held = self._held[found.end :]
        self._state = "content"
        self.malformed += found.malformed
        yield from self._pass_on(found.pieces)

    def _pass_on(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            if piece.kind != "tool_call":
                self._has_text = True
                yield Piece("content", self._drop_frames(self._gap + piece.text))
            elif self._calls and not self._parallel:
                self.dropped += 1
            else:
                self._calls += 1
                yield piece
            self._gap = ""


def _find_first(text: str, markers: Sequence[str]) -> tuple[int, str]:
    """Return the place and the first of the markers in a text; an empty one if there is none."""
    return min(((place, marker) for marker in markers if (place := text.find(marker)) >= 0), default=(len(text), ""))
