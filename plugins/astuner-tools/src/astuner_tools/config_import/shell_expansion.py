"""What the words of a shell script are once its variables are replaced by what the script sets them to."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from attrs import define, field

from astuner_tools.config_import.shell_words import Word, find_close

__all__ = ["Expansion", "compute", "find_unknown"]

MOST_CHARACTERS = 1 << 20
"""A script whose variables double each other would fill the memory."""

_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_PARAMETER = re.compile(
    r"(?P<length>#?)(?P<name>[A-Za-z_]\w*|[0-9@*]+)(?P<index>\[[^\]]*\])?(?P<sign>:?[-=?+]|##?|%%?|//?|\^\^?|,,?|:|$)(?P<rest>.*)",
    re.DOTALL,
)
_LIST = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*)\[[@*]\]\}")
_OTHERS_LISTS = re.compile(r"\$(?:[@*]|\{[@*]\})")
_VARIABLE = re.compile(r"\$\{oc\.env:[A-Za-z_]\w*\}")
_UNKNOWN = re.compile("\ue000(.*?)\ue001", re.DOTALL)
_IN_ARITHMETIC = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?")


def find_unknown(text: str) -> str | None:
    """Return what the value of a word depends on and the script does not say, as it is written there."""
    found = _UNKNOWN.search(text)
    return found[1] if found else None


def _mark_unknown(source: str) -> str:
    return f"\ue000{source}\ue001"


@define(eq=False)
class Expansion:
    """The variables of a script at one of its lines."""

    values: dict[str, str] = field(factory=dict)
    lists: dict[str, list[str]] = field(factory=dict)

    def expand(self, word: Word, *, unset_is_empty: bool = False) -> list[str]:
        """Return the words that a word becomes; raises `ValueError` for one that grows beyond all bounds.

        A variable that the script does not set is written `${oc.env:NAME}`, to be read from the environment when a run starts,
        or is empty, as it is for the tests of the shell.
        """
        fields: list[str] = []
        is_open = False

        def add(text: str) -> None:
            nonlocal is_open
            if is_open:
                fields[-1] += text
            else:
                fields.append(text)
            is_open = True
            if len(fields[-1]) > MOST_CHARACTERS:
                raise ValueError(f"a word of more than {MOST_CHARACTERS >> 20} MiB")

        for piece in word.pieces:
            if piece.quote == "'":
                add(piece.text)
            elif (found := _LIST.fullmatch(piece.text)) is not None:
                for number, text in enumerate(self._list(found["name"])):
                    is_open = is_open and number == 0
                    add(text)
            elif _OTHERS_LISTS.fullmatch(piece.text):
                continue
            elif piece.quote == '"':
                add("".join(text for text, _ in self._scan(piece.text, True, unset_is_empty)))
            else:
                for text, is_value in self._scan(piece.text, False, unset_is_empty):
                    if not is_value or find_unknown(text) is not None:
                        add(text)
                        continue
                    if text[:1].isspace():
                        is_open = False
                    for number, part in enumerate(text.split()):
                        is_open = is_open and number == 0
                        add(part)
                    is_open = is_open and not text[-1:].isspace()
        return fields

    def expand_text(self, word: Word, *, unset_is_empty: bool = False) -> str:
        """Return the one text that an assignment or a test takes a word for."""
        return " ".join(self.expand(word, unset_is_empty=unset_is_empty))

    def assign(self, name: str, value: str, *, is_added: bool = False) -> None:
        """Set a variable, or add to it."""
        self.lists.pop(name, None)
        whole = self.values.get(name, "") + value if is_added else value
        if len(whole) > MOST_CHARACTERS:
            raise ValueError(f"{name} has a value of more than {MOST_CHARACTERS >> 20} MiB")
        self.values[name] = whole

    def _scan(self, text: str, in_quotes: bool, unset_is_empty: bool) -> Iterator[tuple[str, bool]]:
        """Return the parts of a text, and whether each is the value of an expansion."""
        at, plain = 0, ""
        while at < len(text):
            sign = text[at]
            if in_quotes and sign == "\\" and text[at + 1 : at + 2] in ("$", '"', "\\", "`", "\n"):
                plain += text[at + 1].replace("\n", "")
                at += 2
                continue
            end = self._find_end(text, at)
            if end == at:
                plain += sign
                at += 1
                continue
            yield plain, False
            plain = ""
            yield self._expand_one(text[at:end], unset_is_empty), True
            at = end
        if plain:
            yield plain, False

    def _find_end(self, text: str, at: int) -> int:
        """Return where the expansion that begins here ends; `at` if none does."""
        if text[at] == "`":
            end = text.find("`", at + 1)
            return at if end < 0 else end + 1
        if text[at] != "$":
            return at
        if text[at + 1 : at + 2] in ("{", "("):
            end = find_close(text, at + 1)
            return at if end < 0 else end + 1
        found = _NAME.match(text, at + 1)
        return found.end() if found else at

    def _expand_one(self, source: str, unset_is_empty: bool) -> str:
        if source.startswith("$((") and source.endswith("))"):
            number = compute(source[3:-2], self.values)
            return _mark_unknown(source) if number is None else str(number)
        if source.startswith(("$(", "`")):
            return _mark_unknown(source)
        inner = source[2:-1] if source.startswith("${") else source[1:]
        return self._expand_parameter(inner, source, unset_is_empty)

    def _expand_parameter(self, inner: str, source: str, unset_is_empty: bool) -> str:
        found = _PARAMETER.fullmatch(inner)
        if found is None:
            return _mark_unknown(source)
        name, sign, rest = found["name"], found["sign"], found["rest"]
        value = self._find(name, found["index"])
        if found["length"]:
            return str(len(self.lists[name]) if name in self.lists else len(value or ""))
        if sign.lstrip(":") in ("-", "=", "?", "+") and sign != ":":
            is_set = bool(value) if sign.startswith(":") else value is not None
            if sign.endswith("+"):
                return self._expand_rest(rest, unset_is_empty) if is_set else ""
            if not is_set and not sign.endswith("?"):
                default = self._expand_rest(rest, unset_is_empty)
                if sign.endswith("="):
                    self.assign(name, default)
                return default
            sign = ""
        if value is None:
            if unset_is_empty:
                return ""
            return f"${{oc.env:{name}}}" if re.fullmatch(r"[A-Za-z_]\w*", name) else _mark_unknown(source)
        if not sign:
            return value
        changed = _change(value, sign, self._expand_rest(rest, unset_is_empty))
        return _mark_unknown(source) if changed is None else changed

    def _list(self, name: str) -> list[str]:
        return self.lists.get(name, [self.values[name]] if name in self.values else [])

    def _find(self, name: str, index: str | None) -> str | None:
        """Return a value; None for a variable that is not set, here or by the environment, as far as the script shows."""
        if name in self.lists:
            words = self.lists[name]
            if index in ("[@]", "[*]"):
                return " ".join(words)
            place = (index or "[0]")[1:-1]
            return words[int(place)] if place.isdecimal() and int(place) < len(words) else None
        value = self.values.get(name)
        return None if value is not None and _VARIABLE.fullmatch(value) and value != f"${{oc.env:{name}}}" else value

    def _expand_rest(self, text: str, unset_is_empty: bool) -> str:
        # A default may be quoted as a whole or in part; single quotes are plain characters inside double ones, which is rare.
        bare = re.sub(r"(?<!\\)[\"']", "", text)
        return "".join(part for part, _ in self._scan(bare, True, unset_is_empty))


def _change(value: str, sign: str, rest: str) -> str | None:
    """Return a value after `${NAME#pattern}` and the like; None for a form that is not known."""
    if sign in ("^^", ",,"):
        return value.upper() if sign == "^^" else value.lower()
    if sign in ("^", ","):
        return (value[:1].upper() if sign == "^" else value[:1].lower()) + value[1:]
    if sign in ("/", "//"):
        pattern, _, other = rest.partition("/")
        return None if re.search(r"[*?\[]", pattern) else value.replace(pattern, other, -1 if sign == "//" else 1)
    if sign in ("#", "##", "%", "%%") and len(value) < 4096:
        cuts = range(len(value) + 1)
        longest = len(sign) == 2
        if sign.startswith("#"):
            for cut in reversed(cuts) if longest else cuts:
                if fnmatchcase(value[:cut], rest):
                    return value[cut:]
        else:
            for cut in cuts if longest else reversed(cuts):
                if fnmatchcase(value[cut:], rest):
                    return value[:cut]
        return value
    return None


_BINARY: Mapping[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: int(left / right) if right else 0,
    ast.Mod: lambda left, right: left - int(left / right) * right if right else 0,
    ast.Eq: lambda left, right: int(left == right),
    ast.NotEq: lambda left, right: int(left != right),
    ast.Lt: lambda left, right: int(left < right),
    ast.LtE: lambda left, right: int(left <= right),
    ast.Gt: lambda left, right: int(left > right),
    ast.GtE: lambda left, right: int(left >= right),
}


def compute(text: str, values: Mapping[str, str]) -> int | None:
    """Return the value of arithmetic as in `$((a * 2))`; None if the script does not say it, or for rarer operators."""

    def find(found: re.Match[str]) -> str:
        value = values.get(found[1], "").strip()
        return value if re.fullmatch(r"-?[0-9]{1,18}", value) else "unknown"

    replaced = _IN_ARITHMETIC.sub(find, text).replace("&&", " and ").replace("||", " or ").replace("/", "//").strip()
    try:
        return _evaluate(ast.parse(replaced, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _evaluate(node: ast.AST) -> int:
    found: int
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        found = node.value
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        found = _BINARY[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BINARY:
        found = _BINARY[type(node.ops[0])](_evaluate(node.left), _evaluate(node.comparators[0]))
    elif isinstance(node, ast.BoolOp):
        results = [bool(_evaluate(value)) for value in node.values]
        found = int(all(results) if isinstance(node.op, ast.And) else any(results))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd | ast.Not):
        inner = _evaluate(node.operand)
        found = -inner if isinstance(node.op, ast.USub) else inner if isinstance(node.op, ast.UAdd) else int(not inner)
    else:
        raise ValueError("it is not plain arithmetic")
    if abs(found) >= 1 << 63:
        raise ValueError("the shell counts in 64 bits")
    return found
