"""Written mathematics as plain text: LaTeX, markdown and typography reduced to what a number scanner reads."""

from __future__ import annotations

import re
from fractions import Fraction

from attrs import evolve, frozen

from astuner_judges.chinese_numerals import write_shares

BOLD, UNBOLD = "\x01", "\x02"
"""Encloses bold text in the result of `plain`."""

_ZEROS = (0x660, 0x6F0, *range(0x966, 0xDE6, 0x80), 0xE50, 0xED0, 0xF20, 0x1040, 0x17E0)
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-"),
        **dict.fromkeys("×·∙⋅✕", "*"),
        "÷": "/",
        "∕": "/",
        "⁄": "/",
        "≃": "≈",
        "≅": "≈",
        "。": ". ",
        "½": " 1/2",
        "¼": " 1/4",
        "¾": " 3/4",
        "⅓": " 1/3",
        "⅔": " 2/3",
        "⅛": " 1/8",
        "⅜": " 3/8",
        "⅝": " 5/8",
        "⅞": " 7/8",
        "⅕": " 1/5",
        # Full-width forms of ASCII.
        **{chr(0xFEE0 + code): chr(code) for code in range(ord("!"), ord("~") + 1) if code != ord("-")},
        # Arabic, Persian, Indian, Thai, Lao, Tibetan, Burmese and Khmer digits.
        **{chr(zero + digit): str(digit) for zero in _ZEROS for digit in range(10)},
        "￥": "¥",
        "℃": "°C",
        "℉": "°F",
    }
)
_SPACED_THOUSANDS = re.compile(r"(?<=[0-9])(?:[\u00a0\u2009\u202f~]|\\[,!:;]|,\s?\\!\s?|\s?\{\s?,\s?\}\s?)(?=[0-9]{3}(?![0-9]))")
_REPEATING = re.compile(
    r"([0-9]{0,20})\.([0-9]{0,20})\\(?:overline|bar|dot)\s*(?:\{\s*([0-9]{1,20})\s*\}|([0-9]))|(?<![0-9.])0\.\(([0-9]{1,20})\)"
    r"|(?<![0-9.])([0-9]{0,20})\.([0-9]{0,10}?)([0-9]{1,10}?)\8{2,20}(?:\s?\.\.\.|…|\\l?dots)"
)
_DECIMAL_COMMA = re.compile(r"(?<=[0-9])\{,\}(?=[0-9]{1,2}(?![0-9{]))")
_AND_A_HALF = re.compile(r"(?<=[0-9])\s+and\s+(?:a|one)\s+(half|third|quarter)\b", re.IGNORECASE)
_HALVES = {"half": "1/2", "third": "1/3", "quarter": "1/4"}
_ANNOTATION = re.compile(r"<<(?:[^<>=]*=)*([^<>=]*)>>(\s*[$€£¥₹]?-?[0-9.])?")
_PART = r"(?:\{([^{}]*)\}|([0-9]))"
_FRACTION = re.compile(rf"(-\s*)?\\[dtc]?frac\s*{_PART}\s*{_PART}")
_LAYOUT = re.compile(r"\\(?:text)?color\s*\{\w+\}|\\(?:begin|end)\s*\{(?:align|gather|equation|split)\w*\*?\}")
_TEXT = re.compile(r"\\(?:text\w*|math\w+|mbox|emph|operatorname|boldsymbol|bm|underline|boxed|fbox)\s*\{([^{}]*)\}")
_SYMBOLS = {
    r"\times": "*",
    r"\cdot": "*",
    r"\div": "/",
    r"\approx": "≈",
    r"\left": "",
    r"\right": "",
    r"\quad": " ",
    r"\qquad": " ",
    r"\dollar": "$",
    r"\pounds": "£",
    r"\euro": "€",
    r"\percent": "%",
    r"\rightarrow": " ",
    r"\Rightarrow": " ",
    r"\implies": " ",
    r"\displaystyle": "",
    r"\lt": "<",
    r"\gt": ">",
}
_SYMBOL = re.compile(r"\\[A-Za-z]+")
_ARGUMENT = re.compile(r"(\\[A-Za-z]+)\s*\{")
_MARKS = re.compile(r"\\([$%&#_{}])|\\!|\\[,;:()\[\] ]|\\\\|~")
_BOXED = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_BETWEEN_BOXES = re.compile(
    r"(?:[ $]|\\q?quad)*|[\s$]*(?:\\[)\]])?(?:[\s*]|\\q?quad)*"
    r"(?:,|、|(?:,\s*)?(?:\\text\{\s*)?\b(?:and|or)\b(?:\s*\})?|和|或)(?:[\s*]|\\q?quad)*(?:\\[(\[])?[\s$]*"
)
_MOST_BOXES = 20
_POWER = re.compile(r"\^\s*\{\s*(-?[0-9]+)\s*\}")
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*|__([^_\n]+)__")
_CURRENCY = re.compile(
    r"\b(?:(?P<dollars>(?:US|HK|AU|A|CA|C|S|NZ|R)\$)|(?P<code>USD|EUR|GBP|INR|AUD|CAD|CNY|RMB|JPY|Rs|RM)\.?(?=\s?[0-9]))"
)
_SIGNS = {"EUR": "€", "GBP": "£", "INR": "₹", "Rs": "₹", "CNY": "¥", "RMB": "¥", "JPY": "¥"}
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_LOWERED_RUN = re.compile(r"[₀₁₂₃₄₅₆₇₈₉]+")
_RAISED_RUN = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")


@frozen
class Box:
    """What a model boxed, and where the boxes begin and end."""

    text: str
    start: int
    end: int


def to_plain(text: str) -> str:
    """Return the text with LaTeX commands, Unicode variants and calculator annotations rewritten, and bold text marked."""
    text = to_ascii(text)
    if "<<" in text:
        text = _ANNOTATION.sub(lambda match: match[2] or match[1], text)
    if "\\" in text or "0.(" in text or "..." in text or "…" in text:
        text = _REPEATING.sub(_rewrite_repeating, text)
    if "\\" in text or "{" in text:
        text = _rewrite_latex(text)
    if "**" in text or "__" in text:
        text = _BOLD.sub(lambda match: f"{BOLD}{match[1] or match[2]}{UNBOLD}", text)
    if " and " in text:
        text = _AND_A_HALF.sub(lambda match: f" {_HALVES[match[1].lower()]}", text)
    text = text.replace("+/-", "±")
    return _CURRENCY.sub(lambda match: _SIGNS.get(match["code"], "$"), text)


def to_ascii(text: str) -> str:
    """Return the text with Unicode's signs, digits, exponents and fractions, and numbers such as `1.2亿`, in ASCII."""
    if text.isascii():
        return text
    text = _RAISED_RUN.sub(lambda match: "^" + match[0].translate(_RAISED), _SPACED_THOUSANDS.sub("", text))
    text = _LOWERED_RUN.sub(lambda match: f"_{match[0].translate(_LOWERED)} ", text)
    return write_shares(text.translate(_CHARACTERS).replace("\u00a0", " ").replace("\u202f", " "))


def _rewrite_latex(text: str) -> str:
    text = _DEGREES.sub(" degrees ", _LAYOUT.sub(" ", _SPACED_THOUSANDS.sub("", text)))
    text = _DECIMAL_COMMA.sub(".", text).replace("{,}", ",")
    # From the inside out; anything nested deeper is not a plain number.
    for _ in range(4):
        before = text
        text = _TEXT.sub(r" \1 ", _FRACTION.sub(_rewrite_fraction, _POWER.sub(r"^\1", text)))
        if text == before:
            break
    text = _SYMBOL.sub(lambda match: _SYMBOLS.get(match[0], match[0]), _ARGUMENT.sub(r"\1 ", text))
    return _MARKS.sub(lambda match: match[1] or ("" if match[0] == r"\!" else " "), text).replace("{", "").replace("}", "")


def _rewrite_fraction(match: re.Match[str]) -> str:
    minus = "-" if match[1] else ""
    above, below = (match[2] or match[3] or "").strip(), (match[4] or match[5] or "").strip()
    simple = all(part.lstrip("-").replace(".", "", 1).isdigit() for part in (above, below))
    return f" {minus}{above}/{below} " if simple and not (minus and above.startswith("-")) else f" {minus}({above})/({below}) "


def _rewrite_repeating(match: re.Match[str]) -> str:
    """Return a repeating decimal as the fraction that it is."""
    before, after, again = match[1] or match[6] or "0", match[2] or match[7] or "", match[3] or match[4] or match[5] or match[8]
    below = (10 ** len(again) - 1) * 10 ** len(after)
    value = Fraction(int(before + after + again) - int(before + after), below)
    return str(value)


def find_boxed_answer(text: str) -> Box | None:
    r"""Return the last `\boxed{…}` (or `\fbox{…}`), braces matched; None when there is none, and an empty one if it is cut off.

    Boxes that only a comma, "and" or "or" separates are one answer: `\boxed{3} and \boxed{5}` gives `3, 5`. Of boxes inside
    each other, the outermost counts.
    """
    found: list[Box] = []
    for command in list(_BOXED.finditer(text))[: -_MOST_BOXES - 1 : -1]:
        opening = len(text) - len(text[command.end() :].lstrip())
        content = _read_braces(text[opening:])
        if content is None and opening < len(text) and text[opening] != "{":
            # `in a \boxed environment`
            continue
        box = Box(content or "", command.start(), opening + len(content or "") + 2 * (text[opening : opening + 1] == "{"))
        if content is None or not content.strip():
            if not found:
                return evolve(box, text="", end=len(text))
            break
        if found and box.end >= found[0].end:
            found = [box]
        elif found and not _BETWEEN_BOXES.fullmatch(text, box.end, found[0].start):
            break
        else:
            found.insert(0, box)
    if not found:
        return None
    texts = dict.fromkeys(_BOXED.sub("", box.text) for box in found)
    return Box(", ".join(texts), found[0].start, found[-1].end)


def _read_braces(text: str) -> str | None:
    """Return the argument of a command, at the start of `text`."""
    if not text.startswith("{"):
        bare = re.match(r"[0-9.,]*[0-9]", text)
        return bare[0] if bare else None
    depth = 0
    for position, character in enumerate(text):
        if character not in "{}" or text[position - 1 : position] == "\\":
            continue
        depth += 1 if character == "{" else -1
        if depth == 0:
            return text[1:position]
    return None
