r"""Telling a number from an operand: the 4 of `4x`, `\log_2 4`, `4 - x` and `4 squared` is part of another number."""

from __future__ import annotations

import re

_HARMLESS = (
    r"therefore|because|to|so|iff|\w*arrow|mapsto|text\w*|math(?:rm|bf|it|sf|tt|bb|cal|normal)|mbox|boldsymbol|bm|large|Large|LARGE"
    r"|huge|Huge|small|normalsize|bf|rm|it|boxed|fbox|enclose|underline|begin[a-z]*|end[a-z]*|hline|[hv]space\w*|phantom|big\w*|Big\w*"
    r"|ldots|dots|cdots|tag\w*|label\w*|pmod|checkmark|blacksquare|square|qed|emph|item|par|newline|degree|equiv|sim|simeq|cong|doteq"
    r"|(?:milli|centi|kilo)?(?:meter|gram|liter|second)s?|cm|mm|km|kg|boxed\w*"
)
"""Commands of LaTeX that compute nothing."""
_COMMAND = rf"\\(?!(?:{_HARMLESS})(?![A-Za-z]))[A-Za-z]+"
_FUNCTION = "a?(?:sin|cos|tan|cot|sec|csc)h?|arc(?:sin|cos|tan)|log|ln|exp|sqrt|cbrt|gcd|lcm|floor|ceil|fact"
_CONSTANT = "alpha|beta|gamma|delta|epsilon|theta|lambda|mu|pi|rho|sigma|tau|phi|omega|infinity|inf"
_WORDED = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\\w+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty"
    "|hundred|thousand|half|third"
)
_FORMULA = "\ue000-\uf8ff"
_VARIABLE = r"(?!(?:a|A|I)\s+[A-Za-z]{2})[A-Za-z](?![A-Za-z'’]|\.[A-Za-z])"
_OPERAND = (
    rf"(?:[$€£]?\(?-?[$€£]?(?:\.?[0-9]|{_COMMAND}|{_VARIABLE}|(?i:{_FUNCTION}|{_CONSTANT}|{_WORDED})\b|[Ͱ-Ͽ√∛∞{_FORMULA}])"
    r"|\((?![A-Za-z]{2}))"
)
_UNIT = "hrs?|mins?|secs?|ml|mg|kg|mm|cm|km|mi|ft|in|yd|lbs?|oz|st|nd|rd|th|am|pm|kb|mb|gb|[mslghcfdL]|m/s|km/h"
_BEHIND = re.compile(
    rf"""
    [\x01\x02]*
    (?: \s*{_COMMAND}
      | \s*\^(?!\s*(?:st|nd|rd|th)\b)
      | _(?=[A-Za-z0-9])
      | \s+[A-Za-z]{{2,20}}\s*[+*×÷]\s*{_OPERAND}
      | \s*的(?:平方|立方|阶乘)
      | !(?!\s+[A-Z"“\U0001F300-\U0001FAFF✅])
      | \s*(?:[*/×÷+^±∓≠∪∩]|\*\*|[<>]=?|[≤≥]|-(?!-))\s*{_OPERAND}
      | \s+:\s+[0-9]
      | \s?x\s?[0-9$]
      | -(?i:digit)
      | \s+(?i:or\s+(?:more|less|fewer|above|below|higher|lower|greater|larger|smaller))\b
      | \s+(?i:is|was)(?:n't|\s+(?i:not|wrong|incorrect|false))\b
      | \s?[-+/×÷]\s*\$?[\s.]*$
      | \s+(?i:more|less|fewer|larger|smaller|greater)\s+than\s+{_OPERAND}
      | \s+(?i:to|through|times|plus|minus|over|by|multiplied\s+by|divided\s+by|choose|mod|modulo|raised\s+to)
          \s+(?i:(?:the|a)\s+)?{_OPERAND}
      | \s+(?i:times|plus|minus|over)\s+(?i:the|a)\s+(?i:square|cube|natural|log|sum|product|root)
      | \s+(?i:thirds|(?:four|fif|six|seven|eigh|nin|ten|(?:hundred|thousand|million|billion)\w*)ths?)\b
      | [\s-]+(?i:(?:squared|cubed)(?!\s+(?:met|cent|kilo|mill|feet|foot|inch|unit|mile|yard))|factorial|choose
          |(?:raised\s+)?to\s+the\s+(?:power|[0-9a-z]+(?:st|nd|rd|th)?\s+power))\b
      | \s*(?:(?i:(?!sec\b){_FUNCTION}|{_CONSTANT})|i)(?![A-Za-z]|['’.][A-Za-z])
      | (?!(?i:{_UNIT})(?![A-Za-z]))[A-Za-z]{{1,2}}(?![A-Za-z])
      | \s+(?:[beijknopqrtuvwxyz](?![A-Za-z'’)]|\.[a-z])|[BDEGHMOPQSTUXYZ](?![A-Za-z'’).&]|\s[A-Za-z]{{3}}))
      | \s*[A-Za-z](?=\s*(?:\^\s*[04-9a-z(-]|[*+<>=!_]\s*[0-9A-Za-z(\\]|-[0-9a-z]\b))
      | \((?![A-Za-z$€£]*[A-Za-z]{{2}})[^()\s]
      | \s*[√∛∜∞∂∆∇∑∏∫∈∉⊂]
      | \s?(?![ΩΜμ])[Ͱ-Ͽ](?![Ͱ-Ͽ])
    )
    """,
    re.VERBOSE,
)
_TERM = rf"(?:[0-9)\]!°%{_FORMULA}]|(?<![A-Za-z'’])[A-Za-z]|{_COMMAND}|[Ͱ-Ͽ])"
_BEFORE = re.compile(
    rf"""
    (?: {_COMMAND}\s*(?:\[[^\]]*\]\s*)?[(\[|]?\s*
      | {_COMMAND}\s?[_^]?\s?[0-9A-Za-z]{{1,3}}[\s(]+
      | {_TERM}\s*[-+*/×÷·]\s*[(\[]*\s*
      | (?<=[0-9A-Za-z)])\*\*
      | (?<![=<-])(?<!<[A-Za-z])(?<!</[A-Za-z])(?<![A-Za-z]{{2}})(?<!\n)(?<!^)[<>]=?\s*
      | [±∓≠≤≥^_√∛∜∞∂∆∇∑∏∫]\s*[({{-]?\s*
      | (?<![A-Za-z])[A-Za-z]{{1,3}}\(\s*
      | (?<![A-Za-z])(?i:{_FUNCTION}|max|min|abs|det|\w*root|pow|round)(?![A-Za-z])(?:_?[0-9]{{1,2}}|_[a-z])?\s*[(|]?\s*
      | [0-9)]\s?\(\s*
      | [0-9]\s*x\s*
      | [0-9]\s+:\s+
      | (?:大于|小于|不等于|不是|根号)\s*
      | (?![Ωμ])[Ͱ-Ͽ]\s?
      | (?i:\b(?:square\s+roots?|cube\s+roots?|roots?|logarithm|log|powers?|factorial|squares?|cubes?|reciprocal|inverse|opposite
          |sine
          |cosine|tangent|half|third|quarter|multiples?|base\s+\w+)\s+of|\b(?:twice|thrice|double|triple|half)|\bplus|\b(?:multiplied|divided|divisible)\s+by
          |\b(?:factors?|divisors?|thirds|quarters|fourths|fifths|the\s+(?:sum|product|difference|quotient))\s+(?:of|between)
          |\b(?:sum|product|difference|quotient)\s+(?:of|between)\s+\S{{1,12}}\s+and
          |\braised\s+to(?:\s+the)?(?:\s+power(?:\s+of)?)?|\bmodulo|\bmod
          |\b(?:less|more|greater|larger|smaller|fewer|bigger|higher|lower)\s+than(?:\s+or\s+equal\s+to)?)\s*
      | (?:[0-9)]|\b[A-Za-z]|(?i:\b(?:{_WORDED}|{_CONSTANT})))\s+(?i:times|over|minus|less|choose)\s*
    )$
    """,
    re.VERBOSE,
)
_SPECIAL = (
    rf"(?:{_FUNCTION}|{_CONSTANT}|to|through|times|plus|minus|over|by|multiplied|divided|choose|mod|modulo|raised|squared|cubed"
    r"|factorial|power|of|than|between|and|or|less|more|fewer|larger|smaller|greater|divisible|thirds|fourths?|fifths?|sixths?|sevenths?|eighths?|ninths?|twice|thrice|double|triple|half|max|min|abs|det|ten\w*|(?:hundred|thousand|million|billion)\w*)"
)
_PLAIN_BEHIND = re.compile(rf"[\x02$*]*(?:\s(?!(?:{_SPECIAL}|was)\b)[a-z]{{3,}}\b(?!\s*[+*×÷])|[.,;]?\s*$|[.,]\s)", re.IGNORECASE)
_SPECIAL_WORD = re.compile(_SPECIAL, re.IGNORECASE)
"""What needs no closer look: a number between words."""
_MINUEND = re.compile(r"(?:[0-9)]|(?<![A-Za-z'’])[b-zB-HJ-Z]|\\[A-Za-z]+)\s*$")
_ENCLOSED = re.compile(r"[(\[]([^()\[\]]{0,40})$"), re.compile(r"([^()\[\]]{0,40})[)\]]")
_TWO_LETTERS = re.compile(r"[A-Za-z]{2}")
_ANY_COMMAND = re.compile(r"\\[A-Za-z]+")
_TRAILING = re.compile(
    r"(?:(?<![A-Za-z'’])[A-Za-z](?![A-Za-z'’])|[0-9]+(?:\.[0-9]+)?[A-Za-z]?(?![A-Za-z])|\\[A-Za-z]+|[-+*/^_(){}|'\s]|[Ͱ-Ͽ])*"
    # Two letters are a product, unless they are a word or a unit.
    r"(?:(?<![A-Za-z'’])(?!is|it|so|we|he|of|to|in|at|be|by|km|cm|mm|kg|mg|ml|ft|oz|lb|mi|hr|pm|am)[A-Za-z]{2}\s*)?$"
)
_FACTOR = re.compile(
    r"([0-9)]\s*)x(?=\s*[0-9(])|(?<=[0-9])\s+[mslghcfd](?=\s|$)|(?<=[0-9])[mslghcfd](?=\s*[-+*/])|^\s*[aAI]\s+(?=\S)"
)
_LENGTH = re.compile(r"^\s*\|\s*([A-Z]{1,3})\s*\|\s*$")
_BINDER = re.compile(r"\s*\\(?:sum|prod|int|lim|max|min|sup|inf)(?![A-Za-z])")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{3}")
_UNKNOWN = re.compile(
    r"(?<![A-Za-z\\])[A-Za-z]{1,2}(?![A-Za-z])|\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|rho|sigma|tau)\b|[Ͱ-ο]"
)
_LONE = re.compile(
    r"""[\s(]*(?:\\(?!frac|sqrt|pi|ln|log|exp|sin|cos|tan)[A-Za-z]+\s*)*(?:[A-Z]{1,3}|[A-Za-zͰ-Ͽ]?)
    (?:\s*_\s*\(?\s*\\?[A-Za-z0-9]+\)?)?'*(?:\s*\^\s*\(?\s*(?:-\s*1|\\?prime)\s*\)?)?(?:\s*[(\[][^=]*[)\]])?[\s)]*""",
    re.VERBOSE,
)
_ORDER = re.compile(r"[<>≤≥≠]|\\(?:l|g)(?:t|eq?|eqslant)(?![A-Za-z])|\\(?:neq?|pm|mp|in|cup|cap|approx|sim)(?![A-Za-z])|±|∪")
_IN_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textrm)\s*\{[^{}]*[A-Za-z]{2}[^{}]*\}(?:\s*\^\s*\{?[23]\}?)?\s*$")
_LETTER = re.compile(r"[a-df-zA-ZͰ-ορ-Ͽ]|e(?=[A-Za-z])")
_SUBSCRIPT = re.compile(r"(?<!log)\s?_")
_SIGNS = re.compile(r"[\s${}()]|\\left|\\right|\\[,;!]")
_REACH = 48
"""Characters on each side of a number that are looked at."""


def is_operand(text: str, start: int, end: int) -> bool:
    """Whether the number at `text[start:end]` of a plain text is part of a larger expression."""
    behind = text[end : end + _REACH]
    if not _PLAIN_BEHIND.match(behind) and _BEHIND.match(behind):
        return True
    before = text[max(0, start - _REACH) : start].rstrip("\x01$€£")
    if not before.strip() or _follows_word(before):
        return False
    if text[start] == "-" and _MINUEND.search(before):
        return True
    if _BEFORE.search(before):
        return True
    opened, closed = before.rstrip(), behind.lstrip()
    if opened.endswith("(") and closed.startswith(")"):
        return opened.endswith("-(") or bool(_BEHIND.match(closed[1:]) or _BEFORE.search(opened[:-1]))
    left, right = _ENCLOSED[0].search(before), _ENCLOSED[1].match(behind)
    if left is None or right is None or "," not in left[1] + right[1]:
        return False
    return not _TWO_LETTERS.search(_ANY_COMMAND.sub(" ", left[1] + right[1]))


def is_apart(before: str, behind: str) -> bool:
    """Whether nothing but words is around a formula, so that nothing can be computed with it."""
    return not behind.strip(" $.*\n\\)]") and (_follows_word(before) or not before.strip(" $*"))


def _follows_word(before: str) -> bool:
    """Whether the end of a text is a word that computes nothing, and a space."""
    word = before.rstrip(" $*\x01")
    spaced, word = len(word) < len(before), word.rpartition(" ")[2].removeprefix("(")
    return spaced and word.isascii() and word.isalpha() and (len(word) > 2 or word == "is") and not _SPECIAL_WORD.fullmatch(word)


def names_one_value(left: str) -> bool:
    """Whether the left side of an equation is one thing that the right side is the value of: `x`, `f(3)`, `9 * 2`, `Total`.

    `2x + z` is not: `2x + z = 1` is an equation and not the number 1.
    """
    left = _LENGTH.sub(r"\1", _FACTOR.sub(r"\1", left.strip("$ ")))
    if _BINDER.match(left) or _WORD.search(left) or not _UNKNOWN.search(left):
        return True
    # `V_1 : V_2` is one thing too.
    return all(_LONE.fullmatch(part) for part in left.split(":"))


def may_be_number(text: str) -> bool:
    """Whether an expression can be a number at all: it has no unknowns, and states no order (`x > 4`)."""
    said = text.rpartition("=")[2]
    if _ORDER.search(said):
        return False
    if _BINDER.search(said):
        return True
    plain = _ANY_COMMAND.sub(" ", _IN_TEXT.sub(" ", said))
    return not (_LETTER.search(re.sub(rf"(?i:{_FUNCTION})(?![A-Za-z])", " ", plain)) or _SUBSCRIPT.search(said))


def asks_for(question: str, left: str) -> bool:
    """Whether a question contains what is on the left side of an equation, as one that asks for `m + n` does."""
    wanted, text = (_SIGNS.sub("", one.replace("\\dfrac", "\\frac")) for one in (left, question))
    place = text.find(wanted) if len(wanted) > 1 else -1
    return place >= 0 and not text[place + len(wanted) :].startswith("=")


def has_binder(text: str) -> bool:
    """Whether a text has a sum, an integral or a limit, whose letters are not unknowns."""
    return _BINDER.search(text) is not None


def cut_formula(text: str) -> str:
    """Return the letters, digits and operators at the end of a sentence's beginning: `2x` of `So 2x`."""
    match = _TRAILING.search(text[-_REACH:])
    return match[0] if match else ""
