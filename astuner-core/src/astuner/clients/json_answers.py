"""The one JSON object that an LLM's text answers with: never a part of one, and never one that it only quotes."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from astuner.tabular.strict_json import DECODER, StrictJsonError, parse_json

_OPENING = re.compile(r'\{\s*["}]')
_BRACE = re.compile(r"(?<!\\)[{}]")
_STRAY_KEY = re.compile(r'"\s*:')
_THINKING, _THOUGHT = "<think>", "</think>"
_QUOTES = str.maketrans(dict.fromkeys("'`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb", '"'))
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[bfnrt])")
_NUMBER = re.compile(r'(?<![\w.])"?([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"?')


def strip_thought(text: str) -> str:
    """Return an answer without the reasoning before it; raises `ValueError` for reasoning that does not end, or ends twice.

    A text that is one JSON object as a whole stays: there the marks are part of a value.
    """
    if _parse_whole(text) is not None:
        return text
    thought, _, answer = text.rpartition(_THOUGHT)
    if _THOUGHT in thought:
        raise ValueError(f"it has several {_THOUGHT}, so that it is unclear where the answer begins")
    if _THINKING in answer:
        raise ValueError(f"its {_THINKING} does not end")
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
    """Whether a text has the mark that ends reasoning, however it is spaced or broken."""
    return _THOUGHT in _to_plain(text)


def is_whole_object(text: str) -> bool:
    """Whether a text is one JSON object and nothing else; a fence of three backticks may surround it."""
    stripped = re.sub(r"\A```(?:json)?\s*|\s*```\Z", "", text.strip())
    return _parse_whole(stripped) is not None


def is_quoted(value: Any, sources: Sequence[str]) -> bool:
    """Whether a key with its value in some JSON stands in one of the sources, however it is spaced, quoted or escaped there."""
    plain = [_to_plain(source) for source in sources]
    patterns = [re.compile(f"{re.escape(_to_plain(pair))}(?![\\d.])") for pair in _iterate_pairs(value)]
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


def _iterate_pairs(value: Any) -> Iterator[str]:
    """Yield each key with a value that holds no further key, as JSON."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _has_keys(item):
                yield from _iterate_pairs(item)
            else:
                yield json.dumps({key: item}, ensure_ascii=False)[1:-1]
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_pairs(item)


def _has_keys(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_keys, value)))


def _to_plain(text: str) -> str:
    """Return a text without what does not change the meaning of JSON: spaces, escapes, kinds of quotes, spellings of a number."""
    letters = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "", text)
    normal = unicodedata.normalize("NFKC", letters).translate(_QUOTES)
    visible = (letter for letter in normal if letter != "\\" and unicodedata.category(letter)[0] not in "ZC")
    return _NUMBER.sub(lambda match: f"{float(match[1]):g}", "".join(visible))
