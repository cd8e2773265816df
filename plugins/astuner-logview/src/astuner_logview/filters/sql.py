"""From a filter to a condition in SQL; what a user wrote is never part of its text."""

from __future__ import annotations

from typing import Any

from astuner_logview.filters.keys import KEYS
from astuner_logview.filters.language import Filter, Term, Word, read_range
from astuner_logview.index.facts import split_words
from astuner_logview.index.schema import SPLITS

Condition = tuple[str, tuple[Any, ...]]


def build_condition(given: Filter) -> Condition:
    """Return the condition on a row of `episodes`, and its values."""
    parts = [*map(_build_term, given.terms), *map(_build_word, given.words)]
    text = " AND ".join(f"({one[0]})" for one in parts)
    return text or "1", tuple(value for one in parts for value in one[1])


def _build_term(term: Term) -> Condition:
    text, values = _build_positive(term)
    return (f"NOT coalesce({text}, 0)" if term.negated else text), values


def _build_positive(term: Term) -> Condition:
    column = KEYS[term.key].column
    match term.key:
        case "failed" if not term.value:
            return "(completed=0 OR judge_failed=1)", ()
        case "failed":
            like, value = _match_text("coalesce(reason, judge_reason)", term.value)
            return f"((completed=0 OR judge_failed=1) AND {like})", value
        case "judge":
            return "judge_failed=?", (int(term.value == "failed"),)
        case "success":
            return ("success IS NULL", ()) if term.value == "unknown" else ("success=?", (int(term.value == "yes"),))
        case "split":
            return "split=?", (SPLITS.index(term.value),)
        case "component":
            like, name = _match_text("key", term.name)
            condition, values = _compare("value", term) if term.value else ("1", ())
            return f"EXISTS(SELECT 1 FROM json_each(components) WHERE {like} AND {condition})", (*name, *values)
        case "agent" | "finding" | "lost":
            if term.value == "any":
                return f"json_array_length({column})>0", ()
            like, values = _match_text("value", term.value)
            return f"EXISTS(SELECT 1 FROM json_each({column}) WHERE {like})", values
        case "task":
            return _match_text(column, term.value)
    return _compare(column, term)


def _compare(column: str, term: Term) -> Condition:
    if term.op not in (":", "="):
        return f"{column}{term.op}?", (float(term.value),)
    if term.value == "none":
        return f"{column} IS NULL", ()
    ends = read_range(term.value)
    if ends is None:
        # 0.1 as it is written need not be the 0.1 that was computed.
        return f"abs({column}-?)<=?", (float(term.value), 1e-9 * max(1.0, abs(float(term.value))))
    parts = [(f"{column}{op}?", end) for op, end in zip((">=", "<="), ends, strict=True) if end is not None]
    return f"({' AND '.join(text for text, _ in parts)})", tuple(end for _, end in parts)


def _match_text(column: str, value: str) -> Condition:
    if "*" not in value:
        return f"{column}=? COLLATE NOCASE", (value,)
    pattern = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")
    return f"{column} LIKE ? ESCAPE '\\'", (pattern,)


def _build_word(word: Word) -> Condition:
    query = quote_words(word)
    text = (
        "(rowid IN (SELECT rowid FROM texts WHERE texts MATCH ?) "
        "OR verdict_rowid IN (SELECT rowid FROM rationales WHERE rationales MATCH ?))"
    )
    return (f"NOT coalesce({text}, 0)" if word.negated else text), (query, query)


def quote_words(word: Word) -> str:
    """Return words as FTS5 reads them: a phrase, the last word of which may go on."""
    text = split_words(word.text).replace("\0", " ").replace('"', '""')
    return f'"{text}"' + ("" if word.whole else "*")
