"""From the text of a filter to its terms, with the place of every mistake."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from attrs import frozen

from astuner_logview.errors import BadRequest
from astuner_logview.filters.keys import KEYS

LONGEST = 2000
"""Characters of a filter."""
MOST_TERMS = 50
MOST_STARS = 4
"""Stars in one value: each multiplies the time that a comparison may take."""

_TERM = re.compile(r"(?P<minus>-?)(?P<key>[a-z_]+)(?P<op><=|>=|<|>|=|:)")
_BARE = re.compile(r"[^\s\"]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")


@frozen(kw_only=True)
class Term:
    """A condition on a key."""

    key: str
    op: str
    """`:`, `<`, `>`, `<=`, `>=` or `=`."""
    value: str
    """Without its quotation marks; empty for a flag."""
    at: int
    """Where it begins in the text of the filter."""
    text: str
    name: str = ""
    """Of a component: `value` is then what it is compared with."""
    negated: bool = False


@frozen(kw_only=True)
class Word:
    """Words that the texts of an episode must hold."""

    text: str
    at: int
    whole: bool
    """Whether it must end there; otherwise its last word may go on."""
    negated: bool = False


@frozen(kw_only=True)
class Filter:
    """All must hold."""

    terms: Sequence[Term] = ()
    words: Sequence[Word] = ()


def parse_filter(text: str) -> Filter:
    """Return the meaning of a filter; raises `BadRequest` with the place of what cannot be understood."""
    if len(text) > LONGEST:
        raise BadRequest(f"the filter has more than {LONGEST} characters", "shorten it", at=LONGEST)
    # Half a surrogate pair cannot be stored, so that nothing holds it; places stay the same.
    text = text.encode("utf-8", "replace").decode()
    terms: list[Term] = []
    words: list[Word] = []
    place = 0
    while True:
        while place < len(text) and text[place].isspace():
            place += 1
        if place == len(text):
            return Filter(terms=terms, words=words)
        if len(terms) + len(words) == MOST_TERMS:
            raise BadRequest(f"the filter has more than {MOST_TERMS} terms", "leave some out", at=place)
        one, place = _read_one(text, place)
        (terms if isinstance(one, Term) else words).append(one)  # type: ignore[arg-type]  # each list holds its own kind


def _read_one(text: str, at: int) -> tuple[Term | Word, int]:
    found = _TERM.match(text, at)
    if found is not None:
        return _read_term(text, at, found)
    negated = text[at] == "-" and at + 1 < len(text) and not text[at + 1].isspace()
    start = at + negated
    if text[start] == '"':
        value, end = _read_value(text, start)
        return _make_word(value, at, whole=True, negated=negated), end
    bare = _BARE.match(text, start)
    assert bare is not None
    if bare[0] == "failed":
        return Term(key="failed", op=":", value="", at=at, text=text[at : bare.end()], negated=negated), bare.end()
    return _make_word(bare[0].rstrip("*"), at, whole=not bare[0].endswith("*"), negated=negated), bare.end()


def _read_term(text: str, at: int, found: re.Match[str]) -> tuple[Term, int]:
    key, op, place, name = found["key"], found["op"], found.end(), ""
    if key not in KEYS:
        close = get_close_matches(key, KEYS, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise BadRequest(
            f"there is no key '{key}'", f"{hint}Set quotation marks around a text to search for", at=at + len(found["minus"])
        )
    if key == "component" and op in (":", "="):
        name, op, place = _read_component(text, place)
    value, end = ("", place) if key == "component" and not op else _read_value(text, place)
    term = Term(key=key, op=op or ":", value=value, name=name, at=at, text=text[at:end], negated=bool(found["minus"]))
    _check_value(term, place)
    return term, end


def _read_component(text: str, place: int) -> tuple[str, str, int]:
    """Return the name of a component, the operator after it, and where its value begins."""
    if text.startswith('"', place):
        name, place = _read_value(text, place)
    else:
        bare = re.compile(r"[^\s\"<>=:]+").match(text, place)
        name, place = (bare[0], bare.end()) if bare else ("", place)
    if not name:
        raise BadRequest("component: its name is missing", "write component:NAME<1", at=place)
    op = re.compile("<=|>=|<|>|=|:").match(text, place)
    return (name, op[0], op.end()) if op else (name, "", place)


def _read_value(text: str, place: int) -> tuple[str, int]:
    if text.startswith('"', place):
        quoted = _QUOTED.match(text, place)
        if quoted is None:
            raise BadRequest("a quotation mark is not closed", 'add a " at the end of the text', at=place)
        return re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL), quoted.end()
    bare = _BARE.match(text, place)
    return (bare[0], bare.end()) if bare else ("", place)


def _make_word(text: str, at: int, *, whole: bool, negated: bool) -> Word:
    if not any(character.isalnum() for character in text):
        raise BadRequest(f"'{text[:40]}' has no letter and no digit to search for", "search for a word", at=at)
    return Word(text=text, at=at, whole=whole, negated=negated)


def _check_value(term: Term, place: int) -> None:
    kind = "number" if term.name else KEYS[term.key].kind
    if term.name and not term.value and term.text.endswith(term.name):
        return
    if term.value == "" and not (term.name and term.text[-1] not in "<>=:"):
        example = KEYS[term.key].examples[0]
        raise BadRequest(f"{term.key}: its value is missing", f"write it like {example}", at=place)
    if kind == "number":
        _check_number(term, place)
    elif term.op not in (":", "="):
        raise BadRequest(f"{term.key} is not a number", f"write it like {KEYS[term.key].examples[0]}", at=place - len(term.op))
    choices = {"success": ("yes", "no", "unknown"), "judge": ("failed", "ok"), "split": ("train", "validation")}.get(term.key)
    if choices is not None and term.value not in choices:
        raise BadRequest(f"{term.key}: '{term.value[:40]}' is not known", f"give one of {', '.join(choices)}", at=place)
    if term.value.count("*") > MOST_STARS:
        raise BadRequest(f"{term.key}: a value has at most {MOST_STARS} stars", "leave some out", at=place)


def _check_number(term: Term, place: int) -> None:
    if term.op in (":", "=") and (term.value == "none" or read_range(term.value) is not None):
        return
    if _NUMBER.fullmatch(term.value) is None:
        raise BadRequest(
            f"{term.name or term.key}: '{term.value[:40]}' is not a number", "give a number, a range like 1..3, or none", at=place
        )


def read_range(text: str) -> tuple[float | None, float | None] | None:
    """Return the ends of a range such as `1..3`, `1..` or `..3`; None for what is not one."""
    low, dots, high = text.partition("..")
    if not dots or not (low or high) or any(end and _NUMBER.fullmatch(end) is None for end in (low, high)):
        return None
    return float(low) if low else None, float(high) if high else None
