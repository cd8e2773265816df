"""The place in an episode's texts that a search has found."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from astuner_logview.filters.language import Word
from astuner_logview.index.message_text import iterate_message_texts
from astuner_logview.index.record_reading import GONE, read_episode_outline, read_stored_verdict

AROUND = 70
"""Characters before and after what was found."""


def find_snippet(run: Path, row: sqlite3.Row, words: Sequence[Word]) -> list[list[Any]] | None:
    """Return the text around the first of the words, as pieces that say whether they were searched for; None without a place."""
    patterns = [_compile(word) for word in words]
    try:
        for text in _iterate_texts(run, row):
            for pattern in patterns:
                if (found := pattern.search(text)) is not None:
                    return _cut(text, found.start(), found.end())
    except GONE:
        return None
    return None


def _iterate_texts(run: Path, row: sqlite3.Row) -> Iterator[str]:
    data = read_episode_outline(run, row)
    yield data["task"].get("main_query") or ""
    # Replies first: what the model said is looked for more often than its prompts.
    for call in data["calls"]:
        yield from iterate_message_texts(call["reply"])
    for call in data["calls"]:
        for message in call["messages"]:
            yield from iterate_message_texts(message)
    for message in data["task"].get("init_messages") or ():
        yield from iterate_message_texts(message)
    for failure in data["failures"]:
        yield from (str(failure.get(key) or "") for key in ("reason", "detail", "traceback"))
    for found in data["findings"].values():
        yield from (str(one.get("evidence") or "") for one in found)
    for verdict in (data["verdict"], read_stored_verdict(run, row)):
        if isinstance(verdict, Mapping):
            yield from (str(verdict.get(key) or "") for key in ("rationale", "reason", "detail"))


def _compile(word: Word) -> re.Pattern[str]:
    parts = re.findall(r"\w+", word.text.replace("_", " "))
    # The index compares letters without their marks and their case.
    text = r"[\W_]+".join(map(_allow_marks, parts))
    end = "" if word.whole is False else r"(?![^\W_])"
    start = r"(?<![^\W_])"
    if any(ord(character) > 0x2E7F for character in word.text):
        start = end = ""
    return re.compile(start + text + end, re.IGNORECASE)


def _allow_marks(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text)
    return text if plain == text and not text.isascii() else re.escape(text)


def _cut(text: str, start: int, end: int) -> list[list[Any]]:
    end = min(end, start + AROUND)
    before, after = text[max(0, start - AROUND) : start], text[end : end + AROUND]
    first = ("…" if start > AROUND else "") + before
    last = after + ("…" if len(text) > end + AROUND else "")
    return [piece for piece in ([first, False], [text[start:end], True], [last, False]) if piece[0]]
