"""The commands that a shell script runs, as far as its text says: its tests are decided by the values that it sets itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase

from attrs import define, field

from astuner_tools.config_import.shell_expansion import Expansion, compute, find_unknown
from astuner_tools.config_import.shell_words import Array, Operator, Token, Word, split_shell

__all__ = ["list_commands"]

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<plus>\+?)=")
_DECLARING = ("export", "declare", "local", "readonly", "typeset")
_REDIRECTIONS = (">", ">>", "<", "<<<", ">&", "<&", "&>", "&>>", ">|")

_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}


def list_commands(text: str) -> list[list[str]]:
    """Return the words of each command of a script, in its order, assignments left out.

    Of `if` and `case` the branch is taken that the script's own values choose, the first one where they do not say it. A loop is
    passed once. Raises `ValueError` for a quote that is never closed, and for values that grow beyond all bounds.
    """
    script = _Script(split_shell(text))
    try:
        while script.at < len(script.tokens):
            script.run(())
            script.at += 1
    except RecursionError:
        raise ValueError("its commands are nested too deeply") from None
    return script.commands


@define(eq=False)
class _Script:
    tokens: Sequence[Token]
    at: int = 0
    variables: Expansion = field(factory=Expansion)
    commands: list[list[str]] = field(factory=list)
    is_live: bool = True
    """False in a branch that is not taken."""

    def run(self, ends: Collection[str]) -> bool | None:
        """Run up to a word or operator of `ends`, or the end; return whether the last command succeeds, if that is known."""
        status: bool | None = None
        while (token := self._peek()) is not None and _text_of(token) not in ends:
            if isinstance(token, Operator) and token.text not in ("(", *_REDIRECTIONS):
                self.at += 1
                if (token.text == "&&" and status is False) or (token.text == "||" and status is not False):
                    self._under(False, self._run_one)
                continue
            status = self._run_one()
        return status

    def _run_one(self) -> bool | None:
        token = self._peek()
        word = _text_of(token) if token is not None else ""
        if word == "!":
            self.at += 1
            status = self._run_one()
            return None if status is None else not status
        if word == "time":
            self.at += 1
            return self._run_one()
        if word == "(":
            if self._follows("("):
                return self._run_arithmetic()
            return self._run_group(")")
        if word == "{":
            return self._run_group("}")
        if word == "if":
            return self._run_if()
        if word == "case":
            return self._run_case()
        if word in ("for", "select"):
            return self._run_for()
        if word in ("while", "until"):
            self.at += 1
            self.run(("do",))
            self.at += 1
            self.run(("done",))
            self.at += 1
            return None
        return self._run_simple()

    def _run_group(self, end: str) -> bool | None:
        self.at += 1
        status = self.run((end,))
        self.at += 1
        return status

    def _run_arithmetic(self) -> bool | None:
        self.at += 2
        parts = []
        while (token := self._peek()) is not None and not (_text_of(token) == ")" and self._follows(")")):
            parts.append(self.variables.expand_text(token) if isinstance(token, Word) else _text_of(token))
            self.at += 1
        self.at += 2
        number = compute(" ".join(parts), self.variables.values)
        return None if number is None else number != 0

    def _run_if(self) -> bool | None:
        is_open = True
        word = "if"
        while word in ("if", "elif"):
            self.at += 1
            status = self._under(is_open, self.run, ("then",))
            self.at += 1
            takes = is_open and status is not False
            self._under(takes, self.run, ("elif", "else", "fi"))
            is_open = is_open and not takes
            token = self._peek()
            word = _text_of(token) if token is not None else ""
        if word == "else":
            self.at += 1
            self._under(is_open, self.run, ("fi",))
        self.at += 1
        return None

    def _run_case(self) -> bool | None:
        self.at += 1
        subject = self._take_text()
        is_unknown = find_unknown(subject) is not None
        self._skip_to("in")
        is_open = True
        while (token := self._peek()) is not None and _text_of(token) != "esac":
            if isinstance(token, Operator):
                self.at += 1
                continue
            patterns = []
            while (token := self._peek()) is not None and _text_of(token) != ")":
                if isinstance(token, Word):
                    patterns.append(self.variables.expand_text(token, unset_is_empty=True))
                self.at += 1
            self.at += 1
            takes = is_open and (is_unknown or any(fnmatchcase(subject, pattern) for pattern in patterns))
            self._under(takes, self.run, (";;", ";&", ";;&", "esac"))
            is_open = is_open and not takes
        self.at += 1
        return None

    def _run_for(self) -> bool | None:
        self.at += 1
        name = self._take_text()
        token = self._peek()
        if token is not None and _text_of(token) == "in":
            self.at += 1
            values = []
            while (token := self._peek()) is not None and isinstance(token, Word):
                values += self.variables.expand(token)
                self.at += 1
            if self.is_live and values and re.fullmatch(r"[A-Za-z_]\w*", name):
                self.variables.assign(name, values[0])
        self._skip_to("do")
        self.run(("done",))
        self.at += 1
        return None

    def _run_simple(self) -> bool | None:
        words: list[Word] = []
        first = self.at
        while (token := self._peek()) is not None:
            if isinstance(token, Operator):
                if token.text in _REDIRECTIONS:
                    self.at += 1
                    if words and words[-1].plain.isdecimal():
                        words.pop()
                    if isinstance(self._peek(), Word):
                        self.at += 1
                    continue
                if token.text == "(" and self._follows(")") and len(words) == 1:
                    self.at += 2
                    return None  # The body of a function, which comes next, is read where it stands.
                break
            self.at += 1
            if isinstance(token, Array):
                self._assign_list(token)
            else:
                words.append(token)
        if self.at == first:
            self.at += 1
        return self._run_words(words) if self.is_live else None

    def _assign_list(self, token: Array) -> None:
        if not self.is_live:
            return
        words = [text for word in token.words for text in self.variables.expand(word)]
        before = self.variables.lists.get(token.name, []) if token.is_added else []
        if len(before) + len(words) > 1 << 16:
            raise ValueError(f"{token.name} has more than {1 << 16} words")
        self.variables.values.pop(token.name, None)
        self.variables.lists[token.name] = [*before, *words]

    def _run_words(self, words: Sequence[Word]) -> bool | None:
        at = 0
        while at < len(words) and self._assign(words[at]):
            at += 1
        if at == len(words):
            return True if words else None
        name = words[at].plain
        if name in ("[", "[[", "test"):
            return _decide([self.variables.expand_text(word, unset_is_empty=True) for word in words[at + 1 :]])
        fields = [text for word in words[at:] for text in self.variables.expand(word)]
        if name in _DECLARING:
            for word in words[at + 1 :]:
                self._assign(word)
        elif name in (":", "true", "false"):
            return name != "false"
        elif name == "unset":
            for text in fields[1:]:
                self.variables.values.pop(text, None)
                self.variables.lists.pop(text, None)
        elif fields:
            self.commands.append(fields)
        return None

    def _assign(self, word: Word) -> bool:
        """Set a variable if the word does that; return whether it does."""
        first = word.pieces[0] if word.pieces else None
        found = None if first is None or first.quote else _ASSIGNMENT.match(first.text)
        if first is None or found is None:
            return False
        rest = Word((type(first)(first.text[found.end() :]), *word.pieces[1:]))
        self.variables.assign(found["name"], self.variables.expand_text(rest), is_added=bool(found["plus"]))
        return True

    def _under(self, is_live: bool, run: Callable[..., bool | None], *arguments: Collection[str]) -> bool | None:
        before = self.is_live
        self.is_live = before and is_live
        try:
            return run(*arguments)
        finally:
            self.is_live = before

    def _peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _follows(self, text: str) -> bool:
        return self.at + 1 < len(self.tokens) and _text_of(self.tokens[self.at + 1]) == text

    def _take_text(self) -> str:
        token = self._peek()
        self.at += 1
        return self.variables.expand_text(token, unset_is_empty=True) if isinstance(token, Word) else ""

    def _skip_to(self, text: str) -> None:
        while (token := self._peek()) is not None and _text_of(token) != text:
            self.at += 1
        self.at += 1


def _text_of(token: Token) -> str:
    if isinstance(token, Operator):
        return token.text
    return token.plain if isinstance(token, Word) else ""


def _decide(words: Sequence[str]) -> bool | None:
    """Return what `[ … ]` finds; None where it asks for files, or for what the script does not say."""
    words = words[:-1] if words and words[-1] in ("]", "]]") else words
    for sign in ("-o", "-a"):
        if sign in words[1:-1]:
            at = words.index(sign, 1)
            left, right = _decide(words[:at]), _decide(words[at + 1 :])
            if None in (left, right):
                return None
            return bool(left or right) if sign == "-o" else bool(left and right)
    if words and words[0] == "!":
        found = _decide(words[1:])
        return None if found is None else not found
    if any(find_unknown(word) is not None for word in words):
        return None
    if len(words) == 1:
        return bool(words[0])
    if len(words) == 2 and words[0] in ("-n", "-z"):
        return bool(words[1]) == (words[0] == "-n")
    if len(words) != 3:
        return None
    left_text, sign, right_text = words
    if sign in ("=", "==", "!="):
        return fnmatchcase(left_text, right_text) == (sign != "!=")
    if sign in _COMPARED:
        numbers = [int(text) for text in (left_text, right_text) if re.fullmatch(r"-?[0-9]{1,18}", text.strip())]
        return _COMPARED[sign](numbers[0], numbers[1]) if len(numbers) == 2 else None
    return None
