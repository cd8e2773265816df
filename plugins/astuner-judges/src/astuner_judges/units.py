"""Units of measurement and currencies: what they measure, and how large they are."""

from __future__ import annotations

import re
from collections import defaultdict
from fractions import Fraction

from attrs import frozen

_TABLE = {
    "length": {
        "m meter meters metre metres 米": "1",
        "km kms kilometer kilometers kilometre kilometres 公里 千米": "1000",
        "cm cms centimeter centimeters centimetre centimetres 厘米": "1/100",
        "mm millimeter millimeters millimetre millimetres 毫米": "1/1000",
        "mi mile miles 英里": "1609.344",
        "yd yds yard yards": "0.9144",
        "ft foot feet 英尺": "0.3048",
        "inch inches 英寸": "0.0254",
    },
    "mass": {
        "g gram grams 克": "1",
        "kg kgs kilogram kilograms 千克 公斤": "1000",
        "mg milligram milligrams 毫克": "1/1000",
        "tonne tonnes 吨": "1000000",
        "lb lbs pound pounds": "453.59237",
        "oz ounce ounces": "28.349523125",
    },
    "time": {
        "s sec secs second seconds 秒": "1",
        "m min mins minute minutes 分钟": "60",
        "h hr hrs hour hours 小时": "3600",
        "day days 天": "86400",
        "week weeks 周": "604800",
    },
    "months": {"month months 个月": "1", "year years 年": "12"},
    "volume": {
        "l liter liters litre litres 升": "1",
        "ml milliliter milliliters millilitre millilitres 毫升": "1/1000",
    },
    "speed": {
        "m/s meters/second metres/second": "1",
        "km/h kmh kph kilometers/hour kilometres/hour km/hour": "5/18",
        "mph miles/hour mi/h": "0.44704",
    },
    "angle": {"° deg degree degrees 度": "1"},
    "radians": {"rad radian radians": "1"},
    "celsius": {"°c celsius degree degrees 度": "1"},
    "fahrenheit": {"°f fahrenheit degree degrees 度": "1"},
    "dollars": {"$ dollar dollars usd": "1", "cent cents ¢": "1/100"},
    "euros": {"€ euro euros eur": "1", "cent cents": "1/100"},
    "pounds": {"£ pound pounds gbp": "1", "penny pence": "1/100"},
    "yuan or yen": {"¥ 元 块 yuan yen rmb cny jpy": "1"},
    "rupees": {"₹ rupee rupees inr": "1"},
    "pesos": {"₱ peso pesos": "1"},
}
"""What is measured: its units by all their names, each with its size. A name may mean several things, as `m` and `pounds` do."""


@frozen
class Unit:
    """A unit behind a number."""

    name: str
    power: int | None = None
    """2 for `cm^2` and `square feet`; None if it is not written."""


def _read_table() -> dict[str, list[tuple[str, Fraction]]]:
    meanings = defaultdict(list)
    for measured, units in _TABLE.items():
        for names, size in units.items():
            for name in names.split():
                meanings[name].append((measured, Fraction(size)))
    return dict(meanings)


_MEANINGS = _read_table()
_NAMES = "|".join(re.escape(name) for name in sorted(_MEANINGS, key=len, reverse=True))
_UNIT = re.compile(
    rf"""
    [\s*_$\x01\x02-]*                                       # also behind the end of a formula or of bold text
    (?P<before>(?:square|cubic|sq\.?|cu\.?|平方|立方)\s*)?
    (?P<name>(?a:{_NAMES}))(?![A-Za-z])          # of ASCII, as the table has: `ſ` is no `s`
    (?!\s*(?:/|per\b))                                      # a rate that is not in the table is not compared
    (?:\s*\$?\s*\^\s*(?P<power>[23])|\s(?P<behind>squared|cubed))?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_DEGREES = re.compile(r"degrees?\s+([CF])\b", re.IGNORECASE)
_PER = re.compile(r"\s+per\s+", re.IGNORECASE)
_SYMBOL = re.compile(r"[$€£¥₹₱]")


def read_unit(text: str, start: int, end: int) -> Unit | None:
    """Return the unit of the number at `text[start:end]`, behind it or as a currency's sign before it; None if it has none."""
    behind = _DEGREES.sub(r"°\1", _PER.sub("/", text[end : end + 40]))
    if (match := _UNIT.match(behind)) and match["name"] != "$":
        squared = (match["before"] or match["behind"] or "").strip().casefold()
        power = int(match["power"]) if match["power"] else None
        if squared:
            power = 2 if squared.startswith(("sq", "平")) else 3
        return Unit(match["name"].lower(), power)
    is_formula = behind.startswith("$") and not behind.startswith("$$")
    sign = next((one for one in reversed(text[max(0, start - 2) : start + 2]) if _SYMBOL.fullmatch(one)), None)
    if sign is None or (sign == "$" and is_formula and text.count("$", 0, start) == 1):
        return Unit("$") if is_formula and sign is None else None
    return Unit(sign)


def find_conversions(one: Unit, other: Unit) -> frozenset[Fraction]:
    """Return what numbers in `one` may have to be multiplied by to be in `other`; nothing if the two measure different things."""
    factors = set()
    for measured, size in _MEANINGS[one.name]:
        for same, other_size in _MEANINGS[other.name]:
            if measured == same and one.power == other.power:
                factors.add((size / other_size) ** (one.power or 1))
            elif measured == same and size == other_size:
                # `12 cm` for an area of 12 cm^2 is a slip of the pen.
                factors.add(Fraction(1))
    return frozenset(factors)
