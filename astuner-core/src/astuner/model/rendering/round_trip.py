"""Whether a template's own answers come back: rendered by the template, read by a parser, compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from astuner.model.rendering.reply_parser import Piece, Style
from astuner.model.rendering.tool_calls import STYLES
from astuner.model.rendering.tool_calls.call_bodies import TaggedValues
from astuner.model.rendering.tool_calls.marked_calls import CallSection, TaggedCalls
from astuner.model.rendering.tool_calls.styles import MakeParser

_NAMES = ("qzprobe", "qzother")
TOOLS: Sequence[Mapping[str, Any]] = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "x",
            "parameters": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "x"},
                    "count": {"type": "integer", "description": "x"},
                    "list": {"type": "array", "description": "x", "items": {"type": "string"}},
                    "map": {"type": "object", "description": "x", "properties": {"on": {"type": "boolean", "description": "x"}}},
                },
            },
        },
    }
    for name in _NAMES
)
"""The tools that the answers call."""
_PLAIN = {"text": "v"}
_RICH = {"text": '\nit\'s "v"\n  w\n', "count": 3, "list": ["x", "y"], "map": {"on": True}}
_TEXT = "qztext"
_THOUGHT = "qzthought"
_USER: Mapping[str, Any] = {"role": "user", "content": "qzuser"}
_SYSTEM: Mapping[str, Any] = {"role": "system", "content": "x"}
_DONE: Mapping[str, Any] = {"role": "assistant", "content": "x"}

_BY_TOKEN = {
    # The template of R1's distilled models shows calls only with a content of null, which transformers leaves out.
    "<｜tool▁calls▁begin｜>": "deepseek",
    "<|tool_calls_section_begin|>": "kimi",
    "<|tool_call_start|>": "lfm2",
    "<|tool_call|>": "granite",
}
"""The styles of models whose templates show the tools, but not their calls."""

Render = Callable[[Sequence[Mapping[str, Any]], bool], str]
"""Renders messages, with the header of an answer if wanted; may raise anything to refuse them."""


@frozen(kw_only=True)
class WrittenAnswer:
    """An answer as a template writes it."""

    prompt: str
    """The conversation up to the answer."""
    text: str
    """The answer, up to the end of its turn if a token ends it."""
    ended: bool
    """Whether it is all of the text; otherwise more of the conversation may follow."""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """What it says: the calls, by name and arguments,"""
    content: str = ""
    """the text,"""
    reasoning: str = ""
    """and the reasoning."""

    def find_difference(self, make_parser: MakeParser) -> str:
        """Return what is read of the answer, in words for the user, if it is not what the answer says."""
        if self.calls and not self.text.strip():
            return "comes after the end of the turn"
        parser = make_parser(self.prompt, tools=TOOLS, parallel=True)
        pieces = [*parser.feed(self.text), *parser.finish()]
        calls = [(piece.name, _parse(piece.text)) for piece in pieces if piece.kind == "tool_call"]
        if calls != [*self.calls]:
            return f"is read as {_describe(calls) if calls else 'text'}"
        reasoning = _join(pieces, "reasoning")
        # After the last call may be the rest of the conversation.
        last = max((place for place, piece in enumerate(pieces) if piece.kind == "tool_call"), default=len(pieces))
        before, content = _join(pieces[:last], "content"), _join(pieces, "content")
        whole = content == self.content if self.ended else self.content in content and (not calls or before in ("", self.content))
        # The template of gpt-oss shows the text next to a call as reasoning.
        if not whole and not (self.content and self.content in reasoning):
            return f"is read with the text {content[:80]!r}"
        return "" if self.reasoning in reasoning else "is read without its reasoning"


def write_answers(render: Render, ends: Collection[str], kinds: Collection[str]) -> list[WrittenAnswer]:
    """Return a template's answers of some kinds, each in all forms of conversation that the template takes.

    `kinds`: `call`, `values` (of all types, texts with line breaks), `calls`, `text` next to a call, `thought`, `answer`.
    """
    calls: Mapping[str, list[tuple[str, Mapping[str, Any]]]] = {
        "values": [(_NAMES[0], _RICH)],
        "calls": [(name, _PLAIN) for name in _NAMES],
        "answer": [],
    }
    found: dict[tuple[str, str], WrittenAnswer] = {}
    for kind in kinds:
        made = calls.get(kind, [(_NAMES[0], _PLAIN)])
        message: dict[str, Any] = {"role": "assistant", "content": _TEXT if kind in ("text", "answer") else ""}
        if made:
            message["tool_calls"] = [_write_call(number, *call) for number, call in enumerate(made)]
        if kind == "thought":
            message["reasoning_content"] = _THOUGHT
        results = [
            {"role": "tool", "tool_call_id": f"12345678{number}", "name": name, "content": "x"}
            for number, (name, _) in enumerate(made)
        ]
        for before in ([_USER], [_SYSTEM, _USER]):
            for after in ([], results, [*results, *[_DONE] * bool(made), _USER]):
                try:
                    header, text = render(before, True), render([*before, message, *after], False)
                except Exception:  # noqa: BLE001 - the template does not take this form
                    continue
                answer = _cut(header, text, ends, made, alone=not after)
                if answer and all(name in text[len(answer.prompt) :] for name, _ in made):
                    found.setdefault((answer.prompt, answer.text), answer)
    return list(found.values())


def _cut(
    header: str, text: str, ends: Collection[str], calls: Sequence[tuple[str, Mapping[str, Any]]], *, alone: bool
) -> WrittenAnswer | None:
    """Return the answer in a conversation that begins like its header; None if what comes before it was changed, too."""
    start = len(header)
    if not text.startswith(header):
        # The header may open reasoning that an answer in the middle of a conversation does not have.
        start = len(re.sub(r"[<\[][^<>\[\]\s]*$", "", _share_start(header, text)))
        opened = header[start:].strip()
        if _USER["content"] in opened:
            # The question is shown otherwise once it is not the last message, but what comes after it is the same.
            after = header[header.rindex(_USER["content"]) :]
            if after not in text:
                return None
            start, opened = text.index(after) + len(after), ""
        if any(opened == begin.strip() and text.startswith(end, start) for begin, end in _THINKING):
            text, start = header + text[start:], len(header)
    answer = text[start:]
    end = min((place for word in ends if (place := answer.find(word)) >= 0), default=len(answer))
    shown = answer[:end]
    return WrittenAnswer(
        prompt=text[:start],
        text=shown,
        ended=alone and end < len(answer),
        calls=calls,
        content=_TEXT if _TEXT in shown else "",
        reasoning=_THOUGHT if _THOUGHT in shown else "",
    )


def _share_start(first: str, second: str) -> str:
    """Return the beginning that two texts share."""
    return first[
        : next((place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), len(second))
    ]


def _write_call(number: int, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"12345678{number}", "type": "function", "function": function}


def recognise(answers: Sequence[WrittenAnswer], specials: Collection[str]) -> str | None:
    """Return the name of the first style that reads the most of a template's answers with calls; None if none reads any.

    A template that writes no call is recognised by the `specials` of its tokenizer, where only the tokens of one family count.
    """
    if answers:
        counts = {name: sum(_reads(style, answer) for answer in answers) for name, style in STYLES.items()}
        best = max(counts, key=lambda name: counts[name])
        if counts[best]:
            return best
    if "<|channel|>" in specials and "<|message|>" in specials:
        return "harmony"
    return next((name for token, name in _BY_TOKEN.items() if token in specials), None)


def _reads(style: MakeParser, answer: WrittenAnswer) -> bool:
    return any(not answer.find_difference(variant) for variant in _vary(style))


def fit(style: MakeParser, answers: Sequence[WrittenAnswer]) -> MakeParser:
    """Return a style that takes values as a template writes them, on lines of their own or not."""
    return max(_vary(style), key=lambda variant: sum(not answer.find_difference(variant) for answer in answers))


def _vary(style: MakeParser) -> Iterator[MakeParser]:
    """Yield a style, and then the one that differs in whether values are put on lines of their own."""
    yield style
    if isinstance(style, Style) and isinstance(style.calls, TaggedCalls | CallSection):
        body = style.calls.body
        if isinstance(body, TaggedValues):
            yield evolve(style, calls=evolve(style.calls, body=evolve(body, padded=not body.padded)))


_THINKING = {style.think for style in STYLES.values() if isinstance(style, Style)}


def _join(pieces: Sequence[Piece], kind: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind == kind).strip()


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _describe(calls: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}({json.dumps(arguments, ensure_ascii=False)})" for name, arguments in calls)[:200]
