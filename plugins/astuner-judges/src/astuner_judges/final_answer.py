r"""The final answer in what a model wrote, found as a reader would.

In this order: the last `\boxed{…}`; what follows the last `####`; what follows `Answer:`, `A:` or "the answer is"; else the
number that the last sentence with a number states, not counting numbers repeated from the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import evolve, frozen

from astuner.model.reasoning import split_thought
from astuner_judges.chinese_numerals import find_stated_numeral
from astuner_judges.expressions import asks_for, is_apart, is_operand, names_one_value
from astuner_judges.formulas import MarkedText, set_formulas_aside
from astuner_judges.notation import Box, find_boxed_answer, to_ascii, to_plain
from astuner_judges.number_words import find_number_words
from astuner_judges.quantities import Quantity, parse_only_number
from astuner_judges.sentences import Stated, Surroundings, find_stated_number

_END_OF_TURN = re.compile(r"<\|(?:im_end|endoftext|eot_id|end|end_of_text)\|>|</s>|<eos>|<end_of_turn>")
_NEXT_QUESTION = re.compile(r"\n[ \t*#]*(?:Q|Question|Problem|User|Human) ?\d* ?[:：]")
_HASHES = re.compile(r"####+[ \t]*([^\n]*)")
_NUMBERED_TITLE = re.compile(r"\W*(?:step\s*)?[0-9]{1,2}\s*[.):]\s+\W*[A-Za-z]|\W*step\b", re.IGNORECASE)
_ANSWER = re.compile(
    r"""
    ans(?:wers?)?
    (?:\s*\([^)\n]{0,40}\)|\s+in\s+\w+|\s+to\s+(?:the|this|your|that)\s+(?:\w+\s+){0,2}?(?:question|problem))?
    [\s*_`]*
    (?: [:：]
      | \.(?=\s*[$€£¥₹0-9])
      | (?P<verb>\b(?:is|are|was|should\s+be|would\s+be|will\s+be|must\s+be|equals|comes\s+(?:out\s+)?to)\b
        (?!\s+(?:not|found|obtained|calculated|given|computed|determined|wrong|incorrect|correct|right)\b)
        (?:\s+(?:that|therefore|thus|simply|just|equal\s+to))?\s*[:：]?)
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SUBJECT = re.compile(r"(?:\b(?:the|final|correct|our|my|your|overall)\s+|(?:^|[\n.!?:;,])\s*)[*_`#\s]*$", re.IGNORECASE)
"""What precedes `answer is` when it answers the whole question and not its third part."""
_ANSWER_TITLE = re.compile(r"[\W_]*(?:the\s+)?(?:final\s+)?answer[\W_]*", re.IGNORECASE)
_LETTER_A = re.compile(r"A[*_]* ?[:：]")
_MARKUP = re.compile(r"[ \t*_#>`-]*")
_CHINESE = re.compile(r"答案(?:是|为|[:：])+")
_OPTION = re.compile(r"\b(?:correct|right|best|final)\s+(?:option|choice)\s*(?:is|:)\s*(?:option\s+)?", re.IGNORECASE)
_QUESTION_FIRST = re.compile(r"\s*[*#]*\s*(?:Q|Question|Problem) ?\d* ?[:：]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”)*_\x02]*\s+|(?<=[.!?][\"'”)])\s+")
_CHECK = re.compile(
    r"\n[ \t*_#>(-]*(?:(?:verification|verifying|verify|checking|check|proof|notes?)\b[^\n:]{0,30}[:*_]"
    r"|(?:let'?s|let me|we can|to)\s+(?:double[- ]?)?(?:check|verify)\b)",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(r"\n[ \t*_#>(-]*(?:explanation|reasoning)\b[^\n:]{0,30}[:*_]", re.IGNORECASE)
_SHORT = 120
"""An explanation within this many characters explains a given answer; a later one may be the solution itself."""
_LONGEST = 50_000
"""Characters that are read, from the end, so that a model that repeats itself is judged quickly."""
_NEAR = 60
"""Characters around a box that may make it a part of an expression."""
_LONGEST_LINE = 4_000
"""Characters of one that are read: from its end, or after a marker from its beginning."""
_SPACE = re.compile(r"[ \t]{3,}|\n{3,}")
_LEADING_LINES = 20
_DIGIT = re.compile(r"[\d½¼¾⅓⅔]")
_WORD = re.compile(r"[^\W\d_]{3}")
_SHORT_WORD = re.compile(r"\b(?:it|is|so|we|he|be)\b", re.IGNORECASE)
"""Marks a sentence, not an expression: `It is 7`."""
_LIST = re.compile(
    r"[\s$]*-?[0-9][0-9.]*(?:[\s$]*(?:[,;、]|\b(?:and|or|und|oder|et|ou|y|и|или)\b|和|或)[\s$]*-?[0-9][0-9.]*)+[\s$]*"
)
_SEVERAL = re.compile(r"[A-Za-z](?:_\w{1,3})?\s*=[^=,]{1,20}(?:,|\bor\b|\band\b)\s*[A-Za-z](?:_\w{1,3})?\s*=", re.IGNORECASE)
_FLIPPED = re.compile(r"([^=]+)=\s*[A-DF-HJ-Za-df-hj-z]\s*")
"""`4 = x`"""
_RETRACTED = re.compile(
    r"\b(?:no\s*(?=,)|no,? wait|wait|actually|oops|sorry|i mean|correction|scratch that)\b[,:.!]*\s+(?=[^\d\n]{0,30}\d)",
    re.IGNORECASE,
)
"""What precedes another answer in the same line: `4. No, 5`."""
_JOINED = re.compile(r"[0-9]$|\b0\.$"), re.compile(r"\.?[0-9]")
_SENTENCES = re.compile(r"[.!?]\s+[A-Za-z]")
_POLITE = re.compile(
    r"(?:now |very |quite )?(?:help|use|clear|correct|right|understand|satisf|good|as follows|below|above|in |given|shown)",
    re.IGNORECASE,
)
"""What says nothing of the answer: `I hope the answer is helpful`."""
_IN_DOLLARS = re.compile(r"[\s*_]*\$\$?((?:[^$\\]|\\.)+)\$\$?[\s*_.]*")
_COMMAND = re.compile(r"\\(?!text|mbox)[A-Za-z]+")
_BOXES = re.compile(r"\\f?boxed(?![A-Za-z])")
_NEGATED = re.compile(r"(?:^|[=(,:$\s])-\s?[$(]*$")
_REASON = re.compile(r"\s*[(*_\x01]*(?:this is because|this is since|that is because|explanation|note)\b", re.IGNORECASE)


@frozen
class Answer:
    """A final answer."""

    text: str
    """The passage that holds it."""
    quantity: Quantity | None = None
    """Its number; None if it is not a number."""


def find_final_answer(text: str, question: str = "") -> Answer | None:
    """Return the final answer in a model's text; None if there is none. `question` shows which numbers were given."""
    if text.isdecimal() and text.isascii() and (quantity := parse_only_number(text)) is not None:
        return Answer(text, quantity)
    stripped = split_thought(text)[1][-_LONGEST:].strip()
    if any(run in stripped for run in ("   ", "\t", "\n\n\n")):
        stripped = _SPACE.sub(lambda match: match[0][:2], stripped)
    quantity = None
    if len(stripped) < _SHORT and _SEVERAL.match(stripped):
        return Answer(stripped)
    if not _SENTENCES.search(stripped):
        quantity = parse_only_number(to_ascii(stripped).replace("\\%", "%") if len(stripped) < _SHORT else stripped)
    if quantity is not None:
        return Answer(stripped, quantity)
    is_line = 0 < len(stripped) < _SHORT and "\n" not in stripped and "#" not in stripped
    is_line = is_line and not _WORD.search(_COMMAND.sub(" ", stripped)) and not _BOXES.search(stripped)
    if is_line and not _SHORT_WORD.search(stripped) and not find_last_marker(stripped):
        return parse_expression(stripped, question)
    said = cut_to_answer(stripped)
    if (box := find_boxed_answer(said)) is not None:
        return _parse_box(said, box, question)
    found = _find_after_hashes(said, question) or _find_after_marker(said, question) or _find_in_free_text(said, question)
    return parse_expression(stripped) if found is None and is_line else found


def _parse_box(text: str, box: Box, question: str) -> Answer:
    r"""Return what is boxed, with a sign before the box, unless it is only a part: `\boxed{4}\pi`, `1\boxed{4}`."""
    answer = parse_expression(box.text, question)
    if answer.quantity is None:
        return answer
    line = text.rfind("\n", 0, box.start) + 1
    before, behind = text[max(line, box.start - _NEAR) : box.start], text[box.end : box.end + _NEAR]
    if is_apart(before, behind):
        return answer
    before, behind = to_plain(before), to_plain(behind)
    number = "-1" if answer.quantity.value < 0 else "1"
    if _JOINED[0].search(before) or _JOINED[1].match(behind):
        return Answer("")
    if negated := _NEGATED.search(before):
        before = before[: negated.start()] + "="
    if is_operand(f"{before}{number}{behind}", len(before), len(before) + len(number)):
        return Answer("")
    return evolve(answer, quantity=evolve(answer.quantity, value=-answer.quantity.value)) if negated else answer


def parse_gold_answer(text: str) -> Answer:
    """Return the right answer in a reference: a bare answer, a boxed one, or a solution that ends like GSM8K's in `#### 18`."""
    text = text.strip()
    if (box := find_boxed_answer(text)) is not None and box.text.strip():
        return parse_expression(box.text)
    if (hashes := text.rfind("####")) >= 0:
        return parse_expression(text[hashes:].lstrip("# ").partition("\n")[0])
    if len(text) < _SHORT and "\n" not in text:
        return parse_expression(text)
    return find_final_answer(text) or Answer(text)


def parse_expression(text: str, question: str = "") -> Answer:
    """Return the answer of a text that holds nothing else; without a quantity if it is not one number (`x^2`, `1 or 2`)."""
    if len(text) > _LONGEST_LINE or (text.isascii() and text.isdecimal()):
        return Answer(text.strip(), parse_only_number(text) if len(text) <= _LONGEST_LINE else None)
    enclosed = _IN_DOLLARS.fullmatch(text)
    rewritten = to_plain(enclosed[1] if enclosed else text)
    if _SEVERAL.search(rewritten) or is_list_of_numbers(rewritten):
        return Answer(text.strip())
    quantity = parse_only_number(rewritten)
    if quantity is None and "=" in rewritten and is_value(text, question):
        quantity = parse_only_number(rewritten.rpartition("=")[2])
    if quantity is None and (flipped := _FLIPPED.fullmatch(rewritten)):
        quantity = parse_only_number(flipped[1])
    if quantity is None and "\\" not in rewritten and _WORD.search(rewritten) and not re.search(r"\bor\b", rewritten):
        marked = _set_aside(text)
        chosen = find_stated_number(to_plain(marked.text), Surroundings(question, "", marked.formulas), leading=True)
        quantity = chosen.quantity if chosen else None
    return Answer(text.strip(), quantity)


def is_value(text: str, question: str) -> bool:
    """Whether an equation says what one thing is, as `x = 3` does and `2x + z = 1` does not."""
    left = to_plain(text).partition("=")[0].strip("\x01\x02*$ ")
    return names_one_value(left) or asks_for(question, left)


def _set_aside(text: str) -> MarkedText:
    return set_formulas_aside(text, lambda formula: parse_expression(formula).quantity is not None)


def is_list_of_numbers(text: str) -> bool:
    """Whether a text is several numbers, as `3, 5` and `3 and 5` are; `1,234` and `2 and 1/2` are one."""
    return len(text) < _SHORT and not text.isdecimal() and _LIST.fullmatch(text) is not None and parse_only_number(text) is None


def cut_to_answer(text: str) -> str:
    """Leave out thinking, most of a very long text, what follows the end of the turn, and a next question asked by the model."""
    text = split_thought(text)[1][-_LONGEST:]
    if "<" in text:
        text = text.rpartition("</think>")[2]
        if end := _END_OF_TURN.search(text):
            text = text[: end.start()]
    if (following := _NEXT_QUESTION.search(text)) and _DIGIT.search(text[: following.start()]):
        text = text[: following.start()]
    return text


def find_after_hashes(text: str) -> str | None:
    """Return what follows the last `####` that is not a title; None if there is none."""
    return next(_read_after_hashes(text), None)


def _read_after_hashes(text: str) -> Iterator[str]:
    for match in reversed(list(_HASHES.finditer(text))):
        line = match[1].strip(" \t#*_")
        title = _NUMBERED_TITLE.match(line) and text[match.end() :].strip()
        if line and not title and not _ANSWER_TITLE.fullmatch(line):
            yield line


def _find_after_hashes(text: str, question: str) -> Answer | None:
    for line in _read_after_hashes(text):
        answer = parse_expression(line, question)
        if answer.quantity is not None or not _WORD.search(_COMMAND.sub(" ", line)):
            return answer
    return None


def _find_after_marker(text: str, question: str) -> Answer | None:
    """Return what follows the last `Answer:`, `A:` or "the answer is"."""
    marked = find_last_marker(text)
    if marked is None:
        return None
    before, rest = text[: marked[0]], text[marked[1] :]
    line = next((line for line in rest.split("\n") if re.search(r"\w", line)), "").strip()[:_LONGEST_LINE]
    line = _RETRACTED.split(line)[-1]
    aside = _set_aside(line)
    rewritten = to_plain(aside.text)
    sentence = _SENTENCE_END.split(rewritten.lstrip(" *_\x01\x02"), maxsplit=1)[0]
    quantity = parse_only_number(rewritten) or parse_only_number(sentence)
    if quantity is not None:
        return Answer(line, quantity)
    if is_list_of_numbers(sentence.rstrip(". ")):
        return Answer(sentence.rstrip(". "))
    if _opens_solution(text, marked):
        return _find_in_free_text(rest, question)
    around = Surroundings(question, before, aside.formulas)
    chosen = find_stated_number(rewritten, around, leading=True)
    if chosen is not None:
        return _read_stated(chosen, rewritten, line, around)
    words = find_number_words(rewritten)
    if words:
        return Answer(line, Quantity(words[0]))
    if line and not (_WORD.search(_COMMAND.sub(" ", rewritten)) and (_DIGIT.search(rest) or _POLITE.match(line))):
        return Answer(line)
    return _find_in_free_text(rest, question) if _DIGIT.search(rest) else None


def _read_stated(stated: Stated, sentence: str, line: str, around: Surroundings) -> Answer:
    """Return the number that a sentence states, or the expression in its place, if it can be told from the words around it."""
    if stated.quantity is not None:
        return Answer(line, stated.quantity)
    formula = around.read_formula(stated, sentence)
    return Answer(formula or ("" if _WORD.search(_COMMAND.sub(" ", line)) else line))


def _opens_solution(text: str, marked: tuple[int, int]) -> bool:
    """Whether a marker precedes a whole solution of several lines, and not its result."""
    start, end = marked
    following = text[end:].strip().partition("\n")[2]
    if not following or (_DIGIT.search(text, 0, start) and not _QUESTION_FIRST.match(text)):
        return False
    # `A:` in a prompt asks for a solution; after `Answer:` and a sentence, lines that compute nothing explain it.
    return "=" in following or not _ANSWER.match(text, start)


def find_last_marker(text: str) -> tuple[int, int] | None:
    """Return where the last marker begins and ends."""
    lowered = text.replace("A", "a").replace("N", "n").replace("S", "s")
    best: tuple[int, int] | None = None
    position = len(text)
    while (position := lowered.rfind("ans", 0, position)) >= 0:
        if position and (lowered[position - 1].isalnum()):
            continue
        match = _ANSWER.match(text, position)
        if match and (not match["verb"] or _SUBJECT.search(text[max(0, position - 30) : position])):
            best = (position, match.end())
            break
        line_end = lowered.find("\n", position)
        if line_end >= 0 and _ANSWER_TITLE.fullmatch(text, lowered.rfind("\n", 0, position) + 1, line_end):
            best = (position, line_end)
            break
    letters = (
        match
        for match in _LETTER_A.finditer(text)
        if _MARKUP.fullmatch(text, text.rfind("\n", 0, match.start()) + 1, match.start())
    )
    others = [*letters, *(_CHINESE.finditer(text) if "答案" in text else ())]
    others += _OPTION.finditer(text) if "option" in lowered or "choice" in lowered else ()
    return max([*([best] if best else []), *(match.span() for match in others)], default=None)


def _find_in_free_text(text: str, question: str) -> Answer | None:
    """Return the number of the last sentence that has one, ignoring later explanations and checks."""
    text = _drop_afterthought(text)
    lines = text.split("\n")
    reason: Answer | None = None
    for index in reversed(range(len(lines))):
        if not _DIGIT.search(lines[index]):
            continue
        aside = _set_aside(lines[index][-_LONGEST_LINE:])
        sentences = _SENTENCE_END.split(to_plain(aside.text))
        for place in reversed(range(len(sentences))):
            before = "\n".join((*lines[max(0, index - _LEADING_LINES) : index], *sentences[:place]))
            around = Surroundings(question, before, aside.formulas)
            chosen = find_stated_number(sentences[place], around)
            if chosen is None:
                continue
            answer = _read_stated(chosen, sentences[place], sentences[place].strip(), around)
            if not _REASON.match(sentences[place]):
                return answer
            reason = reason or answer
    if reason is not None:
        return reason
    words = find_number_words(text)
    value = words[-1] if words else find_stated_numeral(to_ascii(text))
    return None if value is None else Answer(text.strip(), Quantity(value))


def _drop_afterthought(text: str) -> str:
    checks = list(_CHECK.finditer(text))
    if checks and _DIGIT.search(text[: checks[-1].start()]):
        text = text[: checks[-1].start()]
    explanation = _EXPLANATION.search(text)
    if explanation and explanation.start() <= _SHORT and _DIGIT.search(text[: explanation.start()]):
        text = text[: explanation.start()]
    return text
