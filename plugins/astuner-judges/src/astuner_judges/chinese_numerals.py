"""Numbers in Chinese writing, rewritten with digits: `四十二`, `二分之一`, `百分之五`, `1.2亿`."""

from __future__ import annotations

import re
from fractions import Fraction

_DIGITS = {
    **{character: value for value, character in enumerate("零一二三四五六七八九")},
    **{character: value for value, character in enumerate("〇壹贰叁肆伍陆柒捌玖")},
    "两": 2,
    "幺": 1,
}
_TENS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_NUMERAL = "".join({**_DIGITS, **_TENS, **_MYRIADS})
_WHOLE = rf"[{_NUMERAL}]+(?:点[{''.join(_DIGITS)}]+)?"
_MIXED = rf"[0-9]{{1,40}}(?:\.[0-9]{{1,40}})?(?:[百千]?[万萬亿億]|[百千](?![克米瓦卡帕赫伏焦吨升]))[0-9{_NUMERAL}]*"
_ONE = rf"(?:{_MIXED}|[0-9]+(?:\.[0-9]+)?|{_WHOLE})".replace("+", "{1,40}").replace("*", "{0,40}")
"""Of a bounded length, since the search for a share begins at each place of a text."""
_SHARE = re.compile(rf"(?P<minus>负?)(?:(?P<whole>{_ONE})又)?(?P<below>百|千|{_ONE})分之(?P<above>{_ONE})")
_WITH_DIGITS = re.compile(_MIXED)
_WORDS = re.compile(rf"(?<![0-9.])(?P<minus>负?)(?P<number>{_WHOLE})")
_STATED = re.compile(rf"(?:是|为|有|等于|得到?|剩下?|共|需要?|[=:])\s*(负?{_WHOLE})")
_LARGE = {"百", "千", *_MYRIADS}
_MINUS = re.compile(r"负(?=[0-9])")
_TOKEN = re.compile(r"[0-9]+(?:\.[0-9]+)?|.")
_LONGEST = 40


def write_shares(text: str) -> str:
    """Rewrite what is a number in any text: digits with `万` or `亿` behind them, and fractions (`二分之一`, `百分之5`)."""
    if "分之" in text:
        text = _SHARE.sub(_write_share, text)
    if not _LARGE.isdisjoint(text):
        text = _WITH_DIGITS.sub(lambda match: _write(_value(match[0])), text)
    return _MINUS.sub("-", text)


def write_numerals(text: str) -> str:
    """Rewrite every numeral. For a text that is one number: in a sentence, `一` and `十分` are mostly words."""
    text = text.replace("一半", "1/2")
    return _WORDS.sub(lambda match: ("-" if match["minus"] else "") + _write(_value(match["number"])), text)


def find_stated_numeral(text: str) -> Fraction | None:
    """Return the last numeral that a sentence states, as in `一共有十二个`; a lone `一` is an article and left out."""
    found = [match[1] for match in _STATED.finditer(text) if match[1] != "一"]
    if not found:
        return None
    value = _value(found[-1].lstrip("负"))
    return -value if found[-1].startswith("负") else value


def _write_share(match: re.Match[str]) -> str:
    below, above = _value(match["below"]), _value(match["above"])
    sign = "-" if match["minus"] else ""
    if below == 100:
        return f" {sign}{_write(above)}%"
    if not below or below.denominator * above.denominator != 1:
        return match[0]
    whole = f"{_write(_value(match['whole']))} " if match["whole"] else ""
    return f" {sign}{whole}{above}/{below}"


def _write(value: Fraction) -> str:
    """Write a finite decimal."""
    if value.denominator == 1:
        return str(value.numerator)
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = str((value * 10**places).numerator).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


def _value(written: str) -> Fraction:
    """Return the number that a numeral stands for, with or without places (`一百零五`, `二〇二四`)."""
    written, _, behind = written[:_LONGEST].partition("点")
    tokens = _TOKEN.findall(written)
    if len(tokens) > 1 and all(token in _DIGITS for token in tokens):
        total = Fraction(int("".join(str(_DIGITS[token]) for token in tokens)))
    else:
        total = _add_up(tokens)
    if behind:
        total += Fraction(int("".join(str(_DIGITS[digit]) for digit in behind)), 10 ** len(behind))
    return total


def _add_up(tokens: list[str]) -> Fraction:
    total = section = Fraction(0)
    digit: Fraction | None = None
    place = 1
    for token in tokens:
        if token in _TENS:
            section += (Fraction(1) if digit is None else digit) * _TENS[token]
            digit, place = None, _TENS[token]
        elif token in _MYRIADS:
            section += digit or 0
            size = _MYRIADS[token]
            # 一万亿: a larger unit multiplies everything before it.
            if total and total < size and not section:
                total *= size
            elif total and total < size:
                total = (total + section) * size
            else:
                total += (section or 1) * size
            section, digit, place = Fraction(0), None, size
        elif token in _DIGITS:
            digit, place = Fraction(_DIGITS[token]), 1 if not _DIGITS[token] else place
        else:
            digit, place = Fraction(token), 1
    # 三千五 is 3500: a last digit takes the place below.
    return total + section + (digit or 0) * (place // 10 if place >= 100 else 1)
