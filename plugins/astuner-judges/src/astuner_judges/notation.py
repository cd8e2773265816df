"""Written mathematics as plain text: LaTeX, markdown and typography reduced to what a number scanner reads."""

from __future__ import annotations

import re

from astuner_judges.chinese_numerals import write_shares

BOLD, UNBOLD = "\x01", "\x02"
"""Encloses bold text in the result of `plain`."""

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
        "￥": "¥",
        "℃": "°C",
        "℉": "°F",
    }
)
_SPACED_THOUSANDS = re.compile(r"(?<=[0-9])(?:[\u00a0\u2009\u202f]|\\[,!:;]|\{,\})(?=[0-9]{3}(?![0-9]))")
_ANNOTATION = re.compile(r"<<(?:[^<>=]*=)*([^<>=]*)>>(\s*[$€£¥₹]?-?[0-9.])?")
_FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}|\\[dtc]?frac\s*([0-9])\s*([0-9])")
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
}
_SYMBOL = re.compile(r"\\[A-Za-z]+")
_MARKS = re.compile(r"\\([$%&#_{}])|\\!|\\[,;:()\[\] ]|\\\\|~")
_BOXED = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_BETWEEN_BOXES = re.compile(
    r"[\s$]*(?:\\[)\]])?[\s*]*(?:,|、|(?:,\s*)?(?:\\text\{\s*)?\b(?:and|or)\b(?:\s*\})?|和|或)[\s*]*(?:\\[(\[])?[\s$]*"
)
_MOST_BOXES = 20
_POWER = re.compile(r"\^\s*\{\s*(-?[0-9]+)\s*\}")
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*|__([^_\n]+)__")
_CURRENCY = re.compile(
    r"\b(?:(?P<dollars>(?:US|HK|AU|A|CA|C|S|NZ|R)\$)|(?P<code>USD|EUR|GBP|INR|AUD|CAD|CNY|RMB|JPY|Rs|RM)\.?(?=\s?[0-9]))"
)
_SIGNS = {"EUR": "€", "GBP": "£", "INR": "₹", "Rs": "₹", "CNY": "¥", "RMB": "¥", "JPY": "¥"}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_RAISED_RUN = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")


def to_plain(text: str) -> str:
    """Return the text with LaTeX commands, Unicode variants and calculator annotations rewritten, and bold text marked."""
    text = to_ascii(text)
    if "<<" in text:
        text = _ANNOTATION.sub(lambda match: match[2] or match[1], text)
    if "\\" in text or "{" in text:
        text = _rewrite_latex(text)
    if "**" in text or "__" in text:
        text = _BOLD.sub(lambda match: f"{BOLD}{match[1] or match[2]}{UNBOLD}", text)
    return _CURRENCY.sub(lambda match: _SIGNS.get(match["code"], "$"), text)


def to_ascii(text: str) -> str:
    """Return the text with Unicode's signs, digits, exponents and fractions, and numbers such as `1.2亿`, in ASCII."""
    if text.isascii():
        return text
    text = _RAISED_RUN.sub(lambda match: "^" + match[0].translate(_RAISED), _SPACED_THOUSANDS.sub("", text))
    return write_shares(text.translate(_CHARACTERS).replace("\u00a0", " ").replace("\u202f", " "))


def _rewrite_latex(text: str) -> str:
    text = _DEGREES.sub(" degrees ", _SPACED_THOUSANDS.sub("", text)).replace("{,}", ",")
    # From the inside out; anything nested deeper is not a plain number.
    for _ in range(4):
        before = text
        text = _TEXT.sub(r" \1 ", _FRACTION.sub(_rewrite_fraction, _POWER.sub(r"^\1", text)))
        if text == before:
            break
    text = _SYMBOL.sub(lambda match: _SYMBOLS.get(match[0], match[0]), text)
    return _MARKS.sub(lambda match: match[1] or ("" if match[0] == r"\!" else " "), text).replace("{", "").replace("}", "")


def _rewrite_fraction(match: re.Match[str]) -> str:
    above, below = (match[1] or match[3] or "").strip(), (match[2] or match[4] or "").strip()
    simple = all(part.lstrip("-").replace(".", "", 1).isdigit() for part in (above, below))
    return f" {above}/{below} " if simple else f" ({above})/({below}) "


def find_boxed_answer(text: str) -> str | None:
    r"""Return the content of the last complete `\boxed{…}` (or `\fbox{…}`), braces matched; None when there is none.

    Boxes that only a comma, "and" or "or" separates are one answer: `\boxed{3} and \boxed{5}` gives `3, 5`.
    """
    boxes: list[str] = []
    first = len(text)
    for command in list(_BOXED.finditer(text))[: -_MOST_BOXES - 1 : -1]:
        opening = len(text) - len(text[command.end() :].lstrip())
        content = _read_braces(text[opening:])
        if content is None or not content.strip():
            continue
        end = opening + len(content) + 2 * (text[opening] == "{")
        if boxes and (end > first or not _BETWEEN_BOXES.fullmatch(text, end, first)):
            break
        if content not in boxes:
            boxes.insert(0, content)
        first = command.start()
    return ", ".join(boxes) if boxes else None


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
