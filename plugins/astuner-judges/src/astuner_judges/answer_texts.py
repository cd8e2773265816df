"""Answers that are not numbers: the texts that a model marks as its answer, and what two spellings of one have in common."""

from __future__ import annotations

import re
from functools import lru_cache

from astuner_judges.final_answer import cut_to_answer, find_after_hashes, find_last_marker
from astuner_judges.formulas import find_formulas
from astuner_judges.notation import find_boxed_answer, to_ascii

_TEXT = re.compile(r"\\(?:text\w*|math(?:rm|bf|it|sf|tt)|mbox|operatorname|boldsymbol|bm|emph)\s*\{([^{}]*)\}")
_SPACING = re.compile(r"\\(?:left|right|displaystyle|[!,;:])(?![A-Za-z])|\\\s")
_ENCLOSED = re.compile(
    r"\*\*(.*)\*\*|__(.*)__|\*(.*)\*|`(.*)`|\$\$(.*)\$\$|\$([^$]*)\$|\\\((.*)\\\)|\\\[(.*)\\\]|\"(.*)\"|'(.*)'|“(.*)”|‘(.*)’",
    re.DOTALL,
)
_END = re.compile(r"[\s.,;:?]+$|(?<=[^\W\d_][^\W\d_])!+$")
_SPACE = re.compile(r"(?<![0-9])\s+|\s+(?![0-9])")
_THOUSANDS = re.compile(r"-?[0-9]{1,3}(?: [0-9]{3})+")
_LETTER = re.compile(r"(?:option|choice)?\(?([a-z])\)?")
_INFINITY = re.compile(r"(positive|negative|plus|minus|[+-]|正|负)?(?:\\infty|infinity|inf|∞|无穷大?|无限大)")
_CHOICE = re.compile(r"\(?([A-Z])(?:\)|[.:](?=\s))\s*(?=\S)")
_OTHER_CHOICE = re.compile(r"(?:\(|(?:^|[\n,;.!?]|\b(?:or|and|but))[ \t]*)\(?([A-Z])(?:\)|[.:](?=\s)|\.?\s*$)")
_LONE_CHOICE = re.compile(r"\(?[A-Z]\)?\.?")
_CLAUSE_END = re.compile(r",?\s+(?:because|since)\b|\s+\(|,\s+(?:as|so|which|not)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[^\s.])[.!?][\"'”)*_]*\s+|。")
_FORMULA = re.compile(r"\$([^$]+)\$|\\\((.+?)\\\)")
_UNDECIDED = re.compile(r"\b(?:or|not)\b", re.IGNORECASE)
_ALTERNATIVE = re.compile(r"[\s(.,;*]*(?:or\b|(?:yes|no|true|false|[A-Z])\W*$)", re.IGNORECASE)
"""What follows the first part of a line that gives another answer too: `A. or B.`, `Yes. No.`, `Paris (or London)`."""
_POINT = re.compile(r"(?:\\left)?\s*[(\[].*,.*[)\]]", re.DOTALL)
_SET = re.compile(r"(?:\\left)?\s*(?:\\\{|\\lbrace|\{)(.*?)(?:\\right)?\s*(?:\\\}|\\rbrace|\})", re.DOTALL)
_TIME = re.compile(r"[0-9]{1,2}:[0-5][0-9](?::[0-5][0-9])?\s*([ap]\.?m\.?)?", re.IGNORECASE)
_BASED = re.compile(r"[0-9A-Za-z]+_(?:\{([^{}]+)\}|([0-9]+))")
_LABELLED = re.compile(r"([A-Za-z](?:_(?:\{\w+\}|\w))?)\s*=\s*([^=]+)")
_NAMED_POINT = re.compile(r"\(\s*[a-z](?:\s*,\s*[a-z])+\s*\)\s*=\s*(\(.*\))", re.DOTALL)
_CHOICE_WITH_TEXT = re.compile(r"(\([A-Z]\))\s*(\S.*)", re.DOTALL)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{\w+\*?\}")
_WORDS = re.compile(r"[^\W\d_]+(?:[\s,.'’-]+[^\W\d_]+)*")
_FUNCTION = re.compile(r"a?(?:sin|cos|tan|log|exp|sqrt|cot|sec|csc)h?")
_SHORT_WORDS = frozenset({"no", "on", "is", "it", "he", "we", "up", "us"})
_SEPARATOR = re.compile(
    r"(?:\s|\\q?quad(?![A-Za-z]))*(?:[,;、]|\b(?:and|or)\b|和|或|\\text\{\s*(?:and|or)\s*\})(?:\s|\\q?quad(?![A-Za-z]))*",
    re.IGNORECASE,
)
_MOST_ITEMS = 50
_LONGEST_READING = 2000
"""Characters of what may be an answer, so that a text made of marks is judged quickly."""
_MOST_LAYERS = 10
"""Marks around a text that are taken off, one inside the other."""


def find_stated_texts(text: str) -> list[str]:
    r"""Return what may be the answer: the last box, what follows the last `####` or marker, or all of a text without these.

    One of more than `_LONGEST_READING` characters is replaced by an empty text. After a marker there are several readings: the
    line, its first sentence, and that without its reason ("…, because …").
    """
    return [one if len(one) <= _LONGEST_READING else "" for one in _list_readings(cut_to_answer(text).strip())]


def _list_readings(said: str) -> list[str]:
    if (box := find_boxed_answer(said)) is not None:
        return [box.text]
    if (line := find_after_hashes(said)) is not None:
        return [line]
    marked = find_last_marker(said)
    if marked is None:
        last = _SENTENCE_END.split(said.rpartition("\n")[2] if len(said) <= _LONGEST_READING else "")[-1]
        formulas = [] if _UNDECIDED.search(last) else find_formulas(last)
        return [said, *formulas] if len(formulas) == 1 and is_sentence(said) else [said]
    line = next((line for line in said[marked[1] :].split("\n") if re.search(r"\w", line)), "").strip()
    line = line[: _LONGEST_READING + 1]
    sentence = _SENTENCE_END.split(line, maxsplit=1)[0]
    formulas = [] if _UNDECIDED.search(sentence) else [first or second for first, second in _FORMULA.findall(sentence)]
    parts = [sentence, _CLAUSE_END.split(sentence, maxsplit=1)[0]]
    decided = [part for part in parts if not _ALTERNATIVE.match(line[len(part) :])]
    return [line, *decided, *(formulas if len(formulas) == 1 else ())]


def are_same_text(one: str, other: str) -> bool:
    """Whether two texts are the same but for capitals, spaces, markup, brackets around a letter, and a full stop."""
    one, other = normalize(one), normalize(other)
    if one == other:
        return one != ""
    # One of two times may leave out which half of the day it is.
    times = _TIME.fullmatch(one), _TIME.fullmatch(other)
    return all(times) and not all(time[1] for time in times if time) and one.rstrip("apm") == other.rstrip("apm")


def is_choice(gold: str, text: str) -> bool:
    """Whether a text begins with the letter that is the right answer, as `(C) 42` and `C. Paris` do, and chooses no other.

    Where the right answer is a letter and what it stands for, either is right.
    """
    if enclosed := _CHOICE_WITH_TEXT.fullmatch(_unwrap(_TEXT.sub(r"\1", gold).replace("\\ ", " "))):
        return are_same_text(enclosed[1], text) or are_same_text(enclosed[2], text)
    if not _LONE_CHOICE.fullmatch(gold.strip()):
        return False
    begins = _CHOICE.match(_unwrap(_TEXT.sub(r"\1", text)).lstrip("*_ "))
    letter = gold.strip("(). ")
    if begins is None or begins[1] != letter:
        return False
    return all(other[1] == letter for other in _OTHER_CHOICE.finditer(begins.string, begins.end()))


def have_same_form(one: str, other: str) -> bool:
    """Whether two texts may be the same value: not a point and a set or a bare list, a time and a number, or two bases."""
    bases = _BASED.fullmatch(_unwrap(one)), _BASED.fullmatch(_unwrap(other))
    if bases[0] and bases[1] and (bases[0][1] or bases[0][2]) != (bases[1][1] or bases[1][2]):
        return False
    if _TIME.fullmatch(_unwrap(one)) or _TIME.fullmatch(_unwrap(other)):
        return False
    forms = {_find_form(one), _find_form(other)}
    return "point" not in forms or forms <= {"point", "one"}


def _find_form(text: str) -> str:
    """Return `point` for several values in round or square brackets, `set` and `list` for several others, and `one` value."""
    text = _unwrap(text)
    if _POINT.fullmatch(text) and len(split_items(re.sub(r"^(?:\\left)?\s*[(\[]|(?:\\right)?\s*[)\]]$", "", text))) > 1:
        return "point"
    if (enclosed := _SET.fullmatch(text)) is not None:
        return "set" if len(split_items(enclosed[1])) > 1 else "one"
    return "list" if len(split_items(text)) > 1 else "one"


def align_unknowns(gold: str, stated: list[str]) -> tuple[str, list[str]]:
    """Return a right answer and what may be the answer, as points if the right one has values of several unknowns."""
    point = _write_point(gold)
    if _find_form(point) != "point":
        return gold, stated
    bare = stated[-1] if point != gold and _find_form(stated[-1]) == "list" and "=" not in stated[-1] else ""
    return point, [*map(_write_point, stated), *([f"({_unwrap(bare)})"] if bare else ())]


def _write_point(text: str) -> str:
    """Return values of several unknowns, `y = 5, x = 4` or `(x, y) = (4, 5)`, as one point; any other text as it is."""
    if named := _NAMED_POINT.fullmatch(_unwrap(_SPACING.sub("", text))):
        return named[1]
    values = [_LABELLED.fullmatch(item) for item in split_items(text)] if text.count("=") > 1 else []
    labels = {value[1]: value[2].strip() for value in values if value}
    return f"({', '.join(labels[one] for one in sorted(labels))})" if len(labels) == len(values) > 1 else text


def is_prose(text: str) -> bool:
    """Whether a text is words, whose letters are not variables to be multiplied: `listen` is not `silent`."""
    plain = _unwrap(_TEXT.sub(r" \1 ", text)).strip(" .!?")
    if not _WORDS.fullmatch(plain):
        return False
    words = re.findall(r"[^\W\d_]+", plain)
    return any((len(word) > 2 and not _FUNCTION.fullmatch(word)) or word.lower() in _SHORT_WORDS for word in words)


def is_sentence(text: str) -> bool:
    """Whether there are words around what a text says, so that it is more than a formula."""
    words = re.findall(r"[^\W\d_]{3,}", _COMMAND.sub(" ", _ENVIRONMENT.sub(" ", _TEXT.sub(" ", text))))
    return any(not _FUNCTION.fullmatch(word.lower()) for word in words)


def split_items(text: str) -> list[str]:
    """Return the parts of a list such as `3, 5` or `3 and 5`; commas in brackets separate nothing."""
    text = _unwrap(text)
    items: list[str] = []
    start = depth = 0
    separators = {match.start(): match.end() for match in _SEPARATOR.finditer(text)}
    position = 0
    while position < len(text):
        if depth == 0 and position in separators and len(items) < _MOST_ITEMS:
            items.append(text[start:position])
            start = position = separators[position]
            continue
        depth += (text[position] in "([{") - (text[position] in ")]}")
        position += 1
    return [item.strip() for item in (*items, text[start:]) if item.strip()]


@lru_cache(maxsize=1024)
def normalize(text: str) -> str:
    """Return what all spellings of a text have in common; empty if nothing is left."""
    text = _TEXT.sub(r"\1", to_ascii(text)).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    text = text.replace("\\varnothing", "\\emptyset").replace("\\colon", ":").replace("+/-", "±").replace("\\pm", "±")
    text = _SPACE.sub("", _unwrap(_SPACING.sub(" ", text))).casefold()
    if _THOUSANDS.fullmatch(text):
        return text.replace(" ", "")
    if _TIME.fullmatch(text):
        return text.replace(".", "")
    if letter := _LETTER.fullmatch(text):
        return letter[1]
    if infinity := _INFINITY.fullmatch(text):
        return "-∞" if infinity[1] in {"negative", "minus", "-", "负"} else "∞"
    return text


def _unwrap(text: str) -> str:
    """Take off what encloses a whole text, as bold marks, quotes and formula signs do, and its full stop."""
    for _ in range(_MOST_LAYERS):
        stripped = _END.sub("", text.strip())
        if enclosed := _ENCLOSED.fullmatch(stripped):
            stripped = next((part for part in enclosed.groups() if part is not None), "")
        if stripped == text:
            break
        text = stripped
    return text
