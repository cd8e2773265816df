"""Finding the number that a sentence states."""

from __future__ import annotations

import re
from fractions import Fraction

from attrs import evolve, frozen

from astuner_judges.expressions import asks_for, cut_formula, has_binder, names_one_value
from astuner_judges.formulas import FIRST_MARK
from astuner_judges.notation import BOLD, UNBOLD, to_plain
from astuner_judges.number_words import find_number_words, is_denied
from astuner_judges.quantities import Quantity, are_equal, find_numbers

_ASIDE = re.compile(
    r"\([^()]*\)|\b(?:in|per|every|each|for|over|after|within)\s+1\s+[a-z]+|\bout\s+of\s+[$€£¥₹]?[0-9][0-9,.]*", re.IGNORECASE
)
_ITEM = re.compile(r"\s*[0-9]{1,2}[.)]\s+(?=\S)")
_BEHIND = re.compile(r"(?:,?\s+because|,\s+(?:since|as))\s+(?:[$€£¥₹(]?[0-9]|[^=]*$)", re.IGNORECASE)
_EQUALS = re.compile(r"[=≈]|\b(?:equals|is equal to|for a total of|a total of|totall?ing)\b", re.IGNORECASE)
_RESULT = re.compile(r"[=≈]\s*([^=≈\n]*)")
_CLAUSE_END = re.compile(
    r"[,;](?!\d)|\.\s|\b(?:so|then|therefore|leaving|but|or|which|meaning)\b"
    r"|\band\s+(?:so|then|thus|the|s?he|they|it|his|her|their|each|there|we|I)\b",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r"\s*[-+*/x^]\s*[$€£¥₹(]?[0-9]")
_EITHER = re.compile(r"\s+(?:or|oder|ou|или)\s+[$€£¥₹]?")
_LONGEST_UNIT = 20
_LONGEST = 2000
"""Characters of a sentence that are read: from its beginning if that counts, else from its end."""
_LEAD = re.compile(
    r"[\s*_`\"'(\[:\x01\x02]*(?:(?:≈|~|about|approximately|around|roughly|exactly|only|just|a total of)\s*)?[\x01*\s]*",
    re.IGNORECASE,
)


_CONNECTED = re.compile(r"=|≈|\b(?:is|are|equals?|gives?|makes?|making|totals?|so|thus|i\.e\.)(?=\W|$)", re.IGNORECASE)
_RAISED = re.compile(r"(?:[A-Za-z)\]%]|\\[A-Za-z]+)\s?\^\s?[({]*-?[({]*[0-9]|[\ue000-\uf8ff]")
"""A formula set aside, and the number in `e^4`, which is not found as a number."""


@frozen
class Surroundings:
    """Context that tells given numbers and intermediate steps from the answer."""

    question: str = ""
    before: str = ""
    """The text that leads to the sentence."""
    formulas: tuple[str, ...] = ()
    """Those that are set aside in the sentence."""

    def find_given_numbers(self) -> set[Fraction]:
        """Return the numbers of the question, digits and words."""
        rewritten = to_plain(self.question)
        numbers = {one.quantity.value for one in find_numbers(rewritten)}
        return numbers.union(find_number_words(rewritten))

    def last_result(self) -> Fraction | None:
        """Return the right side of the last equation."""
        for match in reversed(list(_RESULT.finditer(self.before))):
            found = find_numbers(to_plain(match[1]))
            if found:
                return found[0].quantity.value
        return None

    def read_formula(self, stated: Stated, sentence: str) -> str:
        """Return the formula that a sentence states instead of a number; an empty text for anything else."""
        place = ord(sentence[stated.start]) - FIRST_MARK if stated.start < len(sentence) else -1
        return self.formulas[place] if 0 <= place < len(self.formulas) else ""


@frozen
class Stated:
    """What a sentence may state: a number, or something else that was written in its place."""

    quantity: Quantity | None
    start: int
    end: int
    written: frozenset[Fraction] = frozenset()
    """The numbers of what it is."""

    @property
    def value(self) -> Fraction | None:
        """The number's value."""
        return self.quantity.value if self.quantity else None


def find_stated_number(sentence: str, around: Surroundings, *, leading: bool = False) -> Stated | None:
    """Return what a plain sentence states; None if there is nothing.

    It has no quantity if it is an expression (`4x`, `4 squared`), or if the sentence leaves open which number it is ("18 or 20").
    `leading` is for a sentence marked as the answer: what is at its beginning counts more than something later.
    """
    sentence = sentence[:_LONGEST] if leading else sentence[-_LONGEST:]
    found = [one for one in _find_candidates(sentence, around.formulas) if not is_denied(sentence, one.start)]
    if len(found) > 1:
        found = _drop_asides(sentence, found)
    if len(found) <= 1:
        return _check_equation(sentence, found[0], around) if found else None
    if _EITHER.fullmatch(sentence, found[-2].end, found[-1].start) and not _are_equal(found[-2], found[-1]):
        chosen = _choose(sentence, found, around, leading=leading)
        return evolve(chosen, quantity=None) if chosen in found[-2:] else chosen
    return _choose(sentence, found, around, leading=leading)


def _choose(sentence: str, found: list[Stated], around: Surroundings, *, leading: bool) -> Stated:
    """Choose among several."""
    bold = [one for one in found if _is_bold(sentence, one)]
    if bold:
        return bold[-1]
    equal = list(_EQUALS.finditer(sentence))
    if equal and (behind := [one for one in found if one.start >= equal[-1].end()]):
        return _check_equation(sentence, _choose_result(sentence, behind, around), around)
    first, last = found[0], found[-1]
    begins = (lead := _LEAD.match(sentence)) is not None and lead.end() >= first.start
    if leading and begins and first.quantity is not None and not _OPERATOR.match(sentence, first.end):
        return first
    if leading and begins and first.quantity is None:
        return last if last.quantity and _CONNECTED.search(sentence, first.end, last.start) else first
    return _choose_new(found, around)


def _find_candidates(sentence: str, formulas: tuple[str, ...]) -> list[Stated]:
    found = [
        Stated(None if one.is_operand else one.quantity, one.start, one.end, frozenset({one.quantity.value}))
        for one in find_numbers(sentence)
    ]
    powers = [one.end for one in found if one.quantity and one.quantity.unit and one.quantity.unit.power]
    for match in _RAISED.finditer(sentence) if formulas or "^" in sentence else ():
        if any(0 <= match.start() - end <= _LONGEST_UNIT for end in powers):
            continue
        place = ord(sentence[match.start()]) - FIRST_MARK
        numbers = find_numbers(to_plain(formulas[place])) if 0 <= place < len(formulas) else []
        found.append(Stated(None, match.end() - 1, match.end(), frozenset(one.quantity.value for one in numbers)))
    return sorted(found, key=lambda one: one.start)


def _are_equal(one: Stated, other: Stated) -> bool:
    return one.quantity is not None and other.quantity is not None and are_equal(one.quantity, other.quantity)


def _check_equation(sentence: str, one: Stated, around: Surroundings) -> Stated:
    """Leave out the number of an equation in unknowns, such as `2x + z = 1`."""
    before = sentence[: one.start].rstrip(" $€£\x01(-")
    if one.quantity is None or not before.endswith(("=", "≈")):
        return one
    left = cut_formula(before[:-1].rpartition("=")[2])
    return one if has_binder(before) or names_one_value(left) or asks_for(around.question, left) else evolve(one, quantity=None)


def _choose_result(sentence: str, behind: list[Stated], around: Surroundings) -> Stated:
    """Choose among the numbers after the last equals sign: its right side, unless the sentence goes on to something new."""
    clause = _CLAUSE_END.search(sentence, behind[0].end)
    later = [one for one in behind if clause and one.start >= clause.end()]
    if later and around.question:
        given = around.find_given_numbers()
        later = [one for one in later if one.value not in given]
    return later[-1] if later else behind[0]


def _choose_new(found: list[Stated], around: Surroundings) -> Stated:
    """Choose the last number, or if that is in the question, one that is not."""
    if not around.question:
        return found[-1]
    given = around.find_given_numbers()
    new = [one for one in found if one.quantity is not None and one.value not in given]
    last = found[-1]
    if not new or not last.written or not last.written <= given:
        return last
    result = around.last_result()
    return next((one for one in reversed(new) if one.value == result), new[-1])


def _drop_asides(sentence: str, found: list[Stated]) -> list[Stated]:
    """Leave out brackets, the number of a list item, and reasons given after the number."""
    reason = _BEHIND.search(sentence)
    if reason and found[0].end <= reason.start():
        found = [one for one in found if one.end <= reason.start()]
    asides = [match.span() for match in _ASIDE.finditer(sentence)]
    outside = [one for one in found if not any(start <= one.start < end for start, end in asides)]
    item = _ITEM.match(sentence)
    if item and len(outside) > 1 and outside[0].start < item.end():
        outside = outside[1:]
    return outside or found


def _is_bold(sentence: str, one: Stated) -> bool:
    opened = sentence.rfind(BOLD, 0, one.start + 1)
    return opened >= 0 and sentence.find(UNBOLD, opened) >= one.end
