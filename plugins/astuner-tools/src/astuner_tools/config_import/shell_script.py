"""The commands of a shell script, with its variables replaced by what the script assigns to them.

It reads assignments, arrays, defaults (`${NAME:-default}`) and arithmetic of whole numbers. What another program, a branch or a
loop decides is marked with its line, never guessed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from attrs import define, field

__all__ = ["find_unknown", "list_commands"]

MOST_CHARACTERS = 1 << 16
"""Of a command. A script whose variables double each other would fill the memory."""

_CLOSING = {'"': '"', "(": ")", "$(": ")", "${": "}"}
_BLOCKS = {"if": "fi", "case": "esac", "for": "done", "select": "done", "while": "done", "until": "done"}
_HERE_DOCUMENT = re.compile(r"(<<-?[ \t]*(['\"]?)(\w+)\2[^\n]*)\n((?:.*\n)*?)[ \t]*\3(?=\n|$)")
_BEFORE_COMMAND = re.compile(
    r"\s*(?:(?:then|else|do|time|!|\{|\}|(?:export|declare|local|readonly|typeset)(?:\s+-\w+)*)(?=\s|$)"
    r"|(?:function\s+)?[\w-]+\s*\(\)\s*\{?|[^\s()]*\)(?=\s|$))\s*"
)
_ASSIGNMENT = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)(?P<plus>\+?)=")
_VARIABLE = re.compile(r"\$(?:(?P<bare>[A-Za-z_]\w*|[0-9@*#?$!-])|\{(?P<name>[A-Za-z_]\w*|[0-9@*]+)(?P<rest>.*)\})", re.DOTALL)
_UNKNOWN = re.compile("\ue000(.*?)\ue001(.*?)\ue002", re.DOTALL)


def find_unknown(text: str) -> tuple[str, str] | None:
    """Return what a word depends on and the script does not say, and why; None if its value is known."""
    found = _UNKNOWN.search(text)
    return (found[1], " ".join(found[2].split())) if found else None


def list_commands(text: str) -> list[list[str]]:
    """Return the words of each command of a script, in its order, assignments left out.

    A value that the script's text does not say has a mark that `find_unknown` reads, a variable that it does not set is written
    `${oc.env:NAME}`, to be read from the environment when a run starts. Raises `ValueError` for a quote that is never closed, and
    for values that grow beyond all bounds.
    """
    script = _Script()
    without_documents = _HERE_DOCUMENT.sub(lambda found: found[1] + "\n" * found[4].count("\n"), text)
    try:
        for line, separator, command in _split_commands(without_documents):
            script.run(command, separator, line)
    except RecursionError:
        raise ValueError("its commands are nested too deeply") from None
    return script.commands


def _split_commands(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each command with its line and what separates it from the one before."""
    start = at = 0
    line, separator = 1, ""
    while at <= len(text):
        if at == len(text) or (text[at] in "\n;&|" and ">" not in (text[at - 1 : at], text[at + 1 : at + 2])):
            if command := text[start:at].strip():
                yield line + text[start:at][: len(text[start:at]) - len(text[start:at].lstrip())].count("\n"), separator, command
                separator = ""
            separator += text[at : at + 1].strip()
            line += text.count("\n", start, at + 1)
            start = at = at + 1
        else:
            at = _find_end(text, at)


def _find_end(text: str, at: int) -> int:
    """Return the end of the quoted text, substitution, comment or sign that begins at a place."""
    sign = text[at]
    if sign == "\\":
        return min(at + 2, len(text))
    if sign == "#" and (at == 0 or text[at - 1].isspace()):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if sign == "$" and text[at + 1 : at + 2] in ("(", "{"):
        sign = text[at : at + 2]
    if sign in ("'", "`"):
        end = text.find(sign, at + 1)
    elif sign in _CLOSING:
        end = at + len(sign)
        while end < len(text) and text[end] != _CLOSING[sign]:
            end = end + 1 if sign == '"' and text[end] in "'(#" else _find_end(text, end)
    else:
        return at + 1
    if not at < end < len(text):
        raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: {sign} is never closed")
    return end + 1


def _find_word_end(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    while at < len(text) and not text[at].isspace():
        at = _find_end(text, at)
    return at


@define(eq=False)
class _Script:
    values: dict[str, str] = field(factory=dict)
    lists: dict[str, list[str]] = field(factory=dict)
    commands: list[list[str]] = field(factory=list)
    _blocks: list[str] = field(factory=list)
    _line: int = 0
    _was_test: bool = False

    def run(self, text: str, separator: str, line: int) -> None:
        """Take the assignments of a command, and keep its words."""
        self._line = line
        while (before := _BEFORE_COMMAND.match(text)) is not None and before.end():
            text = text[before.end() :]
        first = text.split(maxsplit=1)[0] if text.strip() else ""
        if first in _BLOCKS:
            self._blocks.append(first)
        elif self._blocks and first == _BLOCKS[self._blocks[-1]]:
            self._blocks.pop()
        if self._blocks:
            condition = f"under `{self._blocks[-1]}`"
        else:
            is_conditional = separator == "||" or (separator == "&&" and self._was_test)
            condition = f"after `{separator}`" if is_conditional else ""
        self._was_test = first in ("[", "[[", "test") or first.startswith("((") or (bool(condition) and not self._blocks)
        text = self._take_assignments(text, condition)
        words = self._split(text)
        if words[:1] == ["unset"]:
            for name in words[1:]:
                self.values.pop(name, None)
        elif words:
            self.commands.append(self._mark_values(words, condition))

    def _take_assignments(self, text: str, condition: str) -> str:
        """Set variables; return the rest of the command. Under a condition they may be anywhere in it, as after `case … in`."""
        at = 0
        while at < len(text):
            found = _ASSIGNMENT.match(text, at)
            end = _find_word_end(text, at if found is None else found.end())
            if found is None:
                if not condition:
                    break
                at = end
                continue
            self._assign(found["name"], text[found.end() : end], bool(found["plus"]), condition)
            text, at = text[: found.start()] + text[end:], found.start()
        return text

    def _assign(self, name: str, value: str, is_added: bool, condition: str) -> None:
        if value.startswith("("):
            words = self._mark_values([word for word in self._split(value[1:-1]) if word], condition)
            earlier = self.lists.get(name, [])
            self.lists[name] = [*(earlier if is_added else self._mark_values(earlier, condition) if condition else ()), *words]
        elif condition:
            self.values[name] = self._mark(f"${name}", f"sets {name} {condition}")
        else:
            self.values[name] = (self.values.get(name, "") if is_added else "") + self._expand_value(value)

    def _mark_values(self, words: list[str], condition: str) -> list[str]:
        if not condition:
            return words
        pairs = (word.partition("=") for word in words)
        return [f"{key}={self._mark(key, f'sets it {condition}')}" if equals else key for key, equals, _ in pairs]

    def _mark(self, source: str, reason: str) -> str:
        return f"\ue000{source}\ue001line {self._line} {reason}\ue002"

    def _expand_value(self, text: str) -> str:
        return " ".join(word for word in self._split(text, at_spaces=False) if word)

    def _split(self, text: str, *, at_spaces: bool = True) -> list[str]:
        expanded = self._expand(text, at_spaces=at_spaces)
        if len(expanded) > MOST_CHARACTERS:
            raise ValueError(f"line {self._line}: a command of more than {MOST_CHARACTERS} characters")
        return shlex.split(expanded)

    def _expand(self, text: str, *, is_quoted: bool = False, at_spaces: bool = True) -> str:
        """Return shell text without variables; values that are not quoted are split at spaces if `at_spaces`."""
        parts: list[str] = []
        at = 0
        while at < len(text):
            end = at + 1 if is_quoted and text[at] in "'\"(#" else _find_end(text, at)
            piece = text[at:end]
            if piece == "\\\n" or (piece.startswith("#") and len(piece) > 1):
                pass
            elif is_quoted and piece in ("\\$", "\\`"):
                parts.append(piece[1])
            elif piece.startswith('"') and not is_quoted:
                parts.append(f'"{self._expand(piece[1:-1], is_quoted=True)}"')
            elif piece.startswith("$") or (piece.startswith("`") and len(piece) > 1):
                if piece[1:] == "" and (found := _VARIABLE.match(text, at)) is not None:
                    piece, end = found[0], found.end()
                parts.append(self._replace(piece, is_quoted, at_spaces))
            else:
                parts.append(piece)
            at = end
        return "".join(parts)

    def _replace(self, piece: str, is_quoted: bool, at_spaces: bool) -> str:
        found = _VARIABLE.fullmatch(piece)
        name, rest = (found["bare"] or found["name"], found["rest"] or "") if found else ("", "")
        if rest in ("[@]", "[*]"):
            words = shlex.join(self.lists.get(name, ()))
            return f'" {words} "' if is_quoted else f" {words} "
        if name in ("@", "*") and not rest:
            return ""
        value = piece if piece == "$" else self._evaluate(piece, name, rest)
        if is_quoted:
            return re.sub(r'(["\\])', r"\\\1", value)
        return re.sub(r"([^\w\s])" if at_spaces and find_unknown(value) is None else r"(\W)", r"\\\1", value)

    def _evaluate(self, piece: str, name: str, rest: str) -> str:
        sign, default = re.match(r"(:?[-=])?(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]  # it matches anything
        if piece.startswith("$((") and piece.endswith("))"):
            number = _compute(piece[3:-2], self.values)
            return self._mark(piece, f"computes `{piece}`") if number is None else str(number)
        if name and (sign or not rest):
            value = self.values.get(name)
            if value is None and self.lists.get(name):
                value = self.lists[name][0]
            if value or (value is not None and not (sign or "").startswith(":")):
                return value
            if sign:
                value = self._expand_value(default)
                if sign.endswith("="):
                    self.values[name] = value
                return value
            if name[0].isalpha() or name[0] == "_":
                return f"${{oc.env:{name}}}"
        return self._mark(piece, f"takes it from `{piece}`")


def _compute(expression: str, values: Mapping[str, str]) -> int | None:
    """Return the value of whole-number arithmetic; None for anything else, and for divisions that may be of negative numbers."""
    text = re.sub(r"\$?\{?\b([A-Za-z_]\w*)\}?", lambda found: f"({values.get(found[1], '?')})", expression).strip()
    if not re.fullmatch(r"[0-9\s+*/%()-]{1,400}", text) or re.search(r"\*\*|//|-.*[/%]|[/%].*-", text):
        return None
    try:
        number: int = eval(text.replace("/", "//"), {"__builtins__": {}})
    except (SyntaxError, ZeroDivisionError, TypeError, MemoryError):
        return None
    return number if isinstance(number, int) else None
