"""The one JSON object that an LLM's text answers with: never a part of one, and never one that it only quotes."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from astuner.shared.tabular.strict_json import DECODER, StrictJsonError, parse_json

_OPENING = re.compile(r'\{\s*["}]')
_BRACE = re.compile(r"(?<!\\)[{}]")
_STRAY_KEY = re.compile(r'"\s*:')
_THINKING, _THOUGHT = (
    re.compile(rf"[<\[\u25c1]{end}(?:think|thinking|thought|reasoning|seed:think)[>\]\u25b7]", re.IGNORECASE) for end in ("", "/")
)
"""The marks around reasoning, as models write them: `<think>`, `[THINK]`, `<seed:think>`."""
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[bfnrt])")
_NUMBER = re.compile(r"(?<![\d.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_TOKEN = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|[^\W\d_]+")
_NEAR = 16
"""Most characters between a key and its value, in words such as "a score of 10" or in another notation."""


def strip_thought(text: str) -> str:
    """Return an answer without the reasoning before it; raises `ValueError` for reasoning that does not end, or ends twice.

    A text that is one JSON object as a whole stays: there the marks are part of a value.
    """
    if _parse_whole(text) is not None:
        return text
    ends = list(_THOUGHT.finditer(text))
    if len(ends) > 1:
        raise ValueError(f"it has several {ends[0][0]}, so that it is unclear where the answer begins")
    answer = text[ends[0].end() :] if ends else text
    if begins := _THINKING.search(answer):
        raise ValueError(f"its {begins[0]} does not end")
    return answer


def find_objects(text: str) -> list[dict[str, Any]]:
    """Return the outermost JSON objects of a text; raises `ValueError` if there are none, or a piece of a broken one.

    Nothing is read from inside an object that is not valid JSON or does not close, from inside other braces, or from a list.
    """
    whole = _parse_whole(text)
    if whole is not None:
        return [whole]
    found, rest, at = [], [], 0
    for start, end, value in _iterate_outermost(text):
        found.append(value)
        rest.append(text[at:start])
        at = end
    rest.append(text[at:])
    if not found:
        raise ValueError("it holds no JSON object")
    if any(_STRAY_KEY.search(part) for part in rest) or rest[0].rstrip().endswith("["):
        raise ValueError("its JSON object stands among pieces of another; escape quotes inside of texts")
    return found


def ends_thought(text: str) -> bool:
    """Whether a text has a mark that ends reasoning, however it is spaced or broken."""
    return _THOUGHT.search("".join(_to_plain(text).split())) is not None


def is_whole_object(text: str) -> bool:
    """Whether a text is one JSON object and nothing else; a fence of three backticks may surround it."""
    stripped = re.sub(r"\A```(?:json)?\s*|\s*```\Z", "", text.strip())
    return _parse_whole(stripped) is not None


def is_quoted(value: Any, sources: Sequence[str]) -> bool:
    """Whether a key with its value in some JSON stands in one of the sources, in any notation.

    An LLM that quotes may correct what it quotes: `Score = 10`, `{score: 10}` and "a score of 10" become `{"score": 10}`.
    """
    plain = [spelled for source in map(_to_plain, sources) for spelled in (_respell(source), _respell("".join(source.split())))]
    patterns = [pattern for pair in _iterate_pairs(value) if (pattern := _compile_pair(*pair)) is not None]
    return any(pattern.search(source) for pattern in patterns for source in plain)


def _parse_whole(text: str) -> dict[str, Any] | None:
    try:
        value = parse_json(text.strip())
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _iterate_outermost(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield start, end and value of each object that is not inside other braces, such as those of a formula or a program."""
    depth, at = 0, 0
    while (brace := _BRACE.search(text, at)) is not None:
        at = brace.end()
        if brace[0] == "}":
            depth -= 1
            if depth < 0:
                raise ValueError("a brace closes in it that was never opened")
        elif depth == 0 and _OPENING.match(text, brace.start()):
            try:
                value, at = DECODER.raw_decode(text, brace.start())
            except StrictJsonError:
                raise
            except (ValueError, RecursionError) as error:
                raise ValueError(f"its JSON object is broken: {error}") from error
            yield brace.start(), at, value
        else:
            depth += 1
    if depth:
        raise ValueError("a brace opens in it that never closes")


def _iterate_pairs(value: Any) -> Iterator[tuple[str, str]]:
    """Yield each key, and as JSON its value, if that holds no further key."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _has_keys(item):
                yield from _iterate_pairs(item)
            else:
                yield key, json.dumps(item, ensure_ascii=False)
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_pairs(item)


def _has_keys(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_keys, value)))


def _compile_pair(key: str, value: str) -> re.Pattern[str] | None:
    """Return what matches a key and its value shortly after it; None for one without letters or digits."""
    parts = [_TOKEN.findall(_respell(_to_plain(part))) for part in (key, value)]
    if not all(parts):
        return None
    name, held = (r"[\W_]*".join(map(re.escape, part)) for part in parts)
    starts, ends = (r"(?<![\d.])" if parts[1][0][-1].isdigit() else ""), (r"(?!\d|\.\d)" if parts[1][-1][-1].isdigit() else "")
    return re.compile(f"{name}.{{0,{_NEAR}}}?{starts}{held}{ends}", re.DOTALL)


def _respell(text: str) -> str:
    """Return a text with one spelling of each number."""
    return _NUMBER.sub(lambda number: f"{float(number[0]):g}", text)


def _to_plain(text: str) -> str:
    """Return a text without what does not change its meaning: escapes, kinds of letters, invisible characters."""
    letters = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "", html.unescape(text))
    normal = unicodedata.normalize("NFKC", letters).casefold()
    return "".join(
        letter for letter in normal if letter.isspace() or (unicodedata.category(letter)[0] not in "CM" and letter != "\\")
    )
