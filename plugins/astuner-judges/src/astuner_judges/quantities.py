"""Numbers as people write them: finding them in plain text, and comparing two."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from attrs import evolve, frozen

from astuner_judges.chinese_numerals import write_numerals
from astuner_judges.expressions import cut_formula, is_operand, names_one_value
from astuner_judges.number_words import parse_leading_number_word
from astuner_judges.units import Unit, find_conversions, read_unit

_MOST_DIGITS = 200
"""A longer number counts as text: nothing here may take long."""

_MOST_NUMBERS = 200
"""Numbers of a text that may be its answer."""
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_SCALES |= {"lakh": 10**5, "crore": 10**7, "bn": 10**9, "mn": 10**6, "tausend": 1000, "millionen": 10**6, "milliarden": 10**9}
_SCALES |= {"mil": 1000, "mille": 1000, "millones": 10**6, "тысяч": 1000, "тысячи": 1000, "миллион": 10**6, "миллиона": 10**6}
_NUMBER = re.compile(
    r"""
    (?P<minus>(?<![\w)\]%$€£¥₹₱₩₦.])-|\b(?:minus|negative)\s)?     # not a minus between two terms, and not a hyphen
    (?:[$€£¥₹₱₩₦]\s?(?P<inner>-(?=[0-9.]))?)?                       # also $-5
    (?<![A-Za-z0-9_.^])(?<!\^-)(?<![0-9]:)                  # not in a word, not an exponent, not the minutes of a time
    (?P<number>(?>(?:[0-9]{1,3}(?:\.[0-9]{3}){2,}(?![0-9.])|(?<=[$€£¥₹₱₩₦])[0-9]{1,3}(?:\s[0-9]{3})+(?![0-9])|[0-9]{1,3}(?:\s000)+(?![0-9])|[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+))
    (?!:[0-9])                                              # not the hours of a time
    (?:
        /(?P<below>[0-9]++)(?!/|\.[0-9])
      | (?:\s+(?:and\s+)?|-)(?P<part>[0-9]{1,3})/(?P<whole>[0-9]{1,3}+)(?![0-9/]|\.[0-9])
    )?
    (?:(?<=\b10)(?<![.,]10)\s?\^\s?\(?(?P<ten>-?[0-9]{1,2})(?![0-9!^])\)?)?
    (?:e(?P<exponent>[-+]?[0-9]{1,3})(?![A-Za-z0-9]|\.[0-9]))?
    (?:\s*[*x]\s*10\s*\^\s*\(?(?P<power>-?[0-9]{1,2})(?![0-9])\)?)?
    (?P<percent>\s?%|\s+per\s?cent\b)?
    (?P<scale>\s{0,3}-?(?:hundred|thousand|million|billion|trillion|dozen|lakh|crore|bn|mn|tausend|mil(?:liarden|lionen|lones|le)?
        |тысячи?|миллиона?)\b|k\b)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_UNITS = (
    "kg|g|mg|lbs?|oz|m|cm|mm|km|mi|ft|in|yd|hr?s?|mins?|s|secs?|ml|l|mph|kmh|kph|km/h|m/s|c|f|d|"
    "st|nd|rd|th|cents?|dollars?|hours?|minutes?|days?|weeks?|years?|inches|feet|miles|pounds"
)
_AFTER = re.compile(
    rf"""
    (?:(?:{_UNITS}|°\s?[cf]?)(?![A-Za-z0-9])        # what may stand close to the number
      |\s?[^\W\x00-\u2e7f和或与及到至半点分之余多比又乘除加减]{{1,8}}|\s?分钟)?
    (?:[\s.,;'"()/&-]+                    # and then any words, but no single letter that may be a variable
       (?:(?!(?:pi|sqrt|sin|cos|tan|log|ln|or|and)\b)(?:[A-Za-z][A-Za-z'’]+|{_UNITS}|a|[$€£¥₹₱₩₦]|°[cf]?)(?:\s*\^[23])?)
    )*+
    [\s.,;:'"()%$€£¥₹₱₩₦\\-]*(?:(?<=[A-Za-z])!+[\s*'"]*)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PRECISE = 6
"""A decimal of so many digits may be an irrational number that is rounded."""
_ASKS_PERCENT = re.compile(r"\b(?:what|which|as\s+an?|find\s+the|the)\s+percent|百分之(?:几|多少)|百分比", re.IGNORECASE)
_EDGES = " \t\r\n*_`'\"\x01\x02"
_LABEL = re.compile(r"[A-Za-z][A-Za-z ]{0,40}\s*[=:≈]\s*")
_ABOUT = re.compile(
    r"(?:≈|~|=|about|approximately|approx\.?|around|roughly|exactly|only|just|nearly|almost|a total of)\s*", re.IGNORECASE
)


@frozen
class Quantity:
    """One number, exact, and how it was written."""

    value: Fraction
    decimals: int = 0
    """Digits after the point."""
    ratio: bool = False
    """Written as a fraction."""
    percent: bool = False
    scale: int = 1
    """The value of the word after it: 1000 in `70 thousand`. Not part of `value`."""
    unit: Unit | None = None
    """What is counted or measured, if it is a known unit or currency."""

    @property
    def readings(self) -> frozenset[Fraction]:
        """What the number may mean if the other side has no percent sign or scale."""
        return frozenset((self.value, self.value * self.scale, self.value / 100 if self.percent else self.value))


@frozen
class FoundNumber:
    """A number in a text, and its position."""

    quantity: Quantity
    start: int
    end: int
    is_operand: bool = False
    """It is part of a larger expression, which is another number: the 4 of `4x`, `\\log_2 4` and `4 squared`."""


def are_equal(one: Quantity, other: Quantity, *, units: bool = True) -> bool:
    """Whether two numbers are equal: exactly, except for a decimal that rounds a repeating fraction (33.33 and 100/3).

    With `units`, known units are converted (5 km and 5000 m), and others than these differ (5 km and 5 miles); a unit that
    only one side has does not count.
    """
    if units and one.unit is not None and other.unit is not None and one.unit != other.unit:
        factors = find_conversions(one.unit, other.unit)
        return any(_are_same_number(evolve(one, value=one.value * factor), other) for factor in factors)
    return _are_same_number(one, other)


def read_percent(gold: Quantity, answer: Quantity, question: str) -> Quantity:
    """Return the right answer as it is compared with a percentage, if it has no percent sign itself.

    Of 50, `50%` is right and `5000%` is not; 0.5 is a share, for which `50%` is right unless the question asks for percent.
    """
    if not answer.percent or gold.percent:
        return gold
    if abs(gold.value) <= 1 and not _ASKS_PERCENT.search(question):
        return evolve(gold, value=gold.value * 100, percent=True)
    return evolve(gold, percent=True)


def read_scale(answer: Quantity, gold: Quantity, question: str) -> Quantity:
    """Return an answer such as `4 million` with the value of its word, unless the right one has such a word or the question does.

    `4 million` is right for 4 only where a question asks for millions.
    """
    if (
        answer.scale == 1
        or gold.scale > 1
        or any(one in question.lower() for one, size in _SCALES.items() if size == answer.scale)
    ):
        return answer
    return evolve(answer, value=answer.value * answer.scale, scale=1)


def write_number(number: Quantity) -> str:
    """Return a number in a form that math-verify reads as the same: in `1e-5`, e is not Euler's number."""
    value = number.value * number.scale
    if number.percent:
        return f"{_write(value, number.decimals)}\\%"
    return _write(value, number.decimals)


def _write(value: Fraction, decimals: int) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    if decimals >= _PRECISE and abs(value) > Fraction(1, 100):
        return format(Decimal(value.numerator) / Decimal(value.denominator), "f")
    return f"{'-' if value < 0 else ''}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _are_same_number(one: Quantity, other: Quantity) -> bool:
    if one.percent == other.percent and one.scale == other.scale:
        return one.value == other.value or _rounds(one, other) or _rounds(other, one)
    if one.scale > 1 and other.scale > 1:
        return one.value * one.scale == other.value * other.scale
    return not one.readings.isdisjoint(other.readings)


def _rounds(exact: Quantity, rounded: Quantity) -> bool:
    if not exact.ratio or rounded.ratio or rounded.decimals < 2 or _is_finite_decimal(exact.value.denominator):
        return False
    return abs(exact.value - rounded.value) * 2 <= Fraction(1, 10**rounded.decimals)


def _is_finite_decimal(denominator: int) -> bool:
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    return denominator == 1


def find_numbers(text: str) -> list[FoundNumber]:
    """Return the numbers of a plain text (see `notation.plain`) in order. Times, exponents and parts of words do not count."""
    found: list[FoundNumber] = []
    for match in _NUMBER.finditer(text):
        quantity = _quantity(match, text)
        if quantity is not None:
            operand = len(found) >= _MOST_NUMBERS or is_operand(text, match.start(), match.end())
            found.append(FoundNumber(quantity, match.start(), match.end(), operand))
    return found


def parse_only_number(text: str) -> Quantity | None:
    """Return the number of a plain text that holds only that, perhaps with a label before (`x =`) and a unit after it."""
    text = text.strip(_EDGES).rstrip(".,;:")
    if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS:
        return Quantity(Fraction(int(text)))
    text = text.replace("\x01", "").replace("\x02", "").strip(_EDGES)
    if text[:1] in "([" and "," in text and text[-1:] in ")]":
        # `(1,234)` is a point or an interval.
        return None
    text = text.strip(_EDGES + "([{)]}")
    if not text.isascii():
        text = write_numerals(text)
    label = _LABEL.match(text)
    if label and names_one_value(cut_formula(label[0].rstrip(" =:≈"))):
        text = text[label.end() :]
    text = _ABOUT.sub("", text, count=1) if _ABOUT.match(text) else text
    text = "-" + text[1:].lstrip() if text.startswith("-") else text.removeprefix("+").lstrip()
    match = _NUMBER.match(text)
    if match is None:
        worded = parse_leading_number_word(text)
        return Quantity(worded[0]) if worded and _AFTER.fullmatch(text, worded[1]) else None
    if not _AFTER.fullmatch(text, match.end()) or is_operand(text, match.start(), match.end()):
        return None
    return _quantity(match, text)


def _quantity(match: re.Match[str], text: str) -> Quantity | None:
    digits = re.sub(r"[,\s]", "", match["number"])
    if digits.count(".") > 1:
        digits = digits.replace(".", "")
    below, part = match["below"], match["part"]
    if len(digits) > _MOST_DIGITS or (below and not int(below)) or (part and not int(match["whole"])):
        return None
    decimals = len(digits) - digits.find(".") - 1 if "." in digits else 0
    value = Fraction(int(digits.replace(".", "")), 10**decimals)
    if below:
        value /= int(below)
    elif part:
        value += Fraction(int(part), int(match["whole"]))
    if match["ten"]:
        value = Fraction(10) ** int(match["ten"])
    if match["power"]:
        value *= Fraction(10) ** int(match["power"])
    if match["exponent"]:
        value *= Fraction(10) ** int(match["exponent"])
    if match["minus"] or match["inner"] or _is_negated(text, match.start()):
        value = -value
    scale = _SCALES.get(match["scale"].strip(" -").lower(), 1) if match["scale"] else 1
    if match["scale"] in ("k", "K"):
        value *= 1000
    unit = read_unit(text, match.start("number"), match.end())
    return Quantity(value, decimals, bool(below or part), bool(match["percent"]), scale, unit)


def _is_negated(text: str, start: int) -> bool:
    """Whether a minus with a space after it appears where nothing can be subtracted from."""
    before = text[max(0, start - 6) : start].rstrip()
    return before.endswith("-") and before[:-1].rstrip().endswith(("=", "(", "≈"))
