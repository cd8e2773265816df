"""Finding the number that a sentence states."""

from __future__ import annotations

import re
from fractions import Fraction

from attrs import frozen

from astuner_judges.notation import BOLD, UNBOLD, to_plain
from astuner_judges.number_words import find_number_words
from astuner_judges.quantities import FoundNumber, are_equal, find_numbers

_ASIDE = re.compile(
    r"\([^()]*\)|\b(?:in|per|every|each|for|over|after|within)\s+1\s+[a-z]+|\bout\s+of\s+[$€£¥₹]?[0-9][0-9,.]*", re.IGNORECASE
)
_NOT = re.compile(r"(?:\bnot|n't)\s+(?:equal\s+to\s+)?$", re.IGNORECASE)
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
_EITHER = re.compile(r"\s+or\s+[$€£¥₹]?")
_LONGEST = 2000
"""Characters of a sentence that are read: from its beginning if that counts, else from its end."""
_LEAD = re.compile(
    r"[\s*_`\"'(\[:\x01\x02]*(?:(?:≈|~|about|approximately|around|roughly|exactly|only|just|a total of)\s*)?[\x01*\s]*",
    re.IGNORECASE,
)


@frozen
class Surroundings:
    """Context that tells given numbers and intermediate steps from the answer."""

    question: str = ""
    before: str = ""
    """The text that leads to the sentence."""

    def find_given_numbers(self) -> set[Fraction]:
        """Return the numbers of the question, digits and words."""
        rewritten = to_plain(self.question)
        numbers = {one.quantity.value for one in find_numbers(rewritten)}
        return numbers | {Fraction(value) for value in find_number_words(rewritten)}

    def last_result(self) -> Fraction | None:
        """Return the right side of the last equation."""
        for match in reversed(list(_RESULT.finditer(self.before))):
            found = find_numbers(to_plain(match[1]))
            if found:
                return found[0].quantity.value
        return None


def find_stated_number(sentence: str, around: Surroundings, *, leading: bool = False) -> FoundNumber | None:
    """Return the number that a plain sentence states; None if there is none, or several ("18 or 20").

    `leading` is for a sentence marked as the answer: a number at its beginning counts more than a later one.
    """
    sentence = sentence[:_LONGEST] if leading else sentence[-_LONGEST:]
    found = [one for one in find_numbers(sentence) if not _NOT.search(sentence[max(0, one.start - 20) : one.start])]
    if len(found) > 1:
        found = _drop_asides(sentence, found)
    if len(found) <= 1:
        return found[0] if found else None
    bold = [one for one in found if _is_bold(sentence, one)]
    if bold:
        return bold[-1]
    equal = list(_EQUALS.finditer(sentence))
    if equal and (behind := [one for one in found if one.start >= equal[-1].end()]):
        return _choose_result(sentence, behind, around)
    first, second = found[0], found[1]
    begins = (lead := _LEAD.match(sentence)) is not None and lead.end() >= first.start
    if leading and begins and not _OPERATOR.match(sentence, first.end):
        undecided = _EITHER.fullmatch(sentence, first.end, second.start) and first.quantity.value != second.quantity.value
        return None if undecided else first
    if _EITHER.fullmatch(sentence, found[-2].end, found[-1].start) and not are_equal(found[-2].quantity, found[-1].quantity):
        return None
    return _choose_new(found, around)


def _choose_result(sentence: str, behind: list[FoundNumber], around: Surroundings) -> FoundNumber:
    """Choose among the numbers after the last equals sign: its right side, unless the sentence goes on to something new."""
    clause = _CLAUSE_END.search(sentence, behind[0].end)
    later = [one for one in behind if clause and one.start >= clause.end()]
    if later and around.question:
        given = around.find_given_numbers()
        later = [one for one in later if one.quantity.value not in given]
    return later[-1] if later else behind[0]


def _choose_new(found: list[FoundNumber], around: Surroundings) -> FoundNumber:
    """Choose the last number, or if that is in the question, one that is not."""
    if not around.question:
        return found[-1]
    given = around.find_given_numbers()
    new = [one for one in found if one.quantity.value not in given]
    if found[-1].quantity.value not in given or not new:
        return found[-1]
    result = around.last_result()
    return next((one for one in reversed(new) if one.quantity.value == result), new[-1])


def _drop_asides(sentence: str, found: list[FoundNumber]) -> list[FoundNumber]:
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


def _is_bold(sentence: str, one: FoundNumber) -> bool:
    opened = sentence.rfind(BOLD, 0, one.start + 1)
    return opened >= 0 and sentence.find(UNBOLD, opened) >= one.end
