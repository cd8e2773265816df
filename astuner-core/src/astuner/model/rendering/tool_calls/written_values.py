"""Notations of calls that are neither JSON nor plain text between tags: Python's, Gemma's, and nested elements."""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from astuner.model.rendering.reply_parser import Piece
from astuner.model.rendering.tool_calls import sampled_json
from astuner.model.rendering.tool_calls.marked_calls import CUT, Tools
from astuner.model.rendering.tool_calls.typed_arguments import NAMES, encode_value, encode_values, evaluate, find_properties

_ENDS = r"\s*(?:[,:)\]}]|$)"
STRING = re.compile(rf"""(['"])((?:\\.|(?!\1{_ENDS})[^\\])*)\1""", re.DOTALL)
"""A text up to the quote behind which an argument or a list can go on: some templates do not escape the quotes in it."""
_TOKEN = re.compile(rf"{STRING.pattern}|(?<=[(,])\s*(?:{'|'.join(keyword.kwlist)})(?=\s*=)|(?<![\w.])0+(?=\d)", re.DOTALL)
_MARK = "_qz"
_QUOTE = re.compile(r"""['"]""")
_GEMMA = re.compile(r"\s*call:\s*([^{\s]+)\s*(?=\{)")
_KEY = re.compile(r'(?<=[{,])\s*([\w.\-]+|"[^"]*")\s*:')
_NONE = re.compile(r"(?<=[:,\[])None(?=[,}\]])")


def read_python(block: str, tools: Tools) -> tuple[Piece, ...] | None:
    """Read `[name(key='value'), …]`; see `Body`."""
    text = _TOKEN.sub(_escape, block.strip())
    try:
        tree = ast.parse(text, mode="eval").body
        pieces = tuple(_read_python_call(node, tools) for node in (tree.elts if isinstance(tree, ast.List) else [tree]))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return CUT if _QUOTE.search(STRING.sub("", block)) else None
    return pieces or None


def _escape(found: re.Match[str]) -> str:
    """Return what Python would refuse in its own form: line breaks and quotes in a text, its words as names, leading zeros."""
    if found[1] is None:
        return "" if found[0].startswith("0") else found[0] + _MARK
    quote, text = found[1], found[2].replace("\n", "\\n").replace("\r", "\\r").replace("\0", "\\x00")
    return quote + re.sub(rf"\\.|{quote}", lambda part: part[0] if len(part[0]) > 1 else "\\" + quote, text) + quote


def _read_python_call(node: ast.expr, tools: Tools) -> Piece:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError("a call has a name, and arguments with names")
    values: dict[str, Any] = {}
    for argument in node.keywords:
        key = (argument.arg or "").removesuffix(_MARK)
        if not key or key in values:
            raise ValueError("an argument has one name")
        value = argument.value
        # Some templates write words without quotes.
        is_word = isinstance(value, ast.Name) and value.id not in NAMES
        values[key] = value.id if is_word else evaluate(value)  # type: ignore[attr-defined] # a word is a name
    name = ast.unparse(node.func)
    return Piece("tool_call", encode_values(name, values, tools), name)


def read_gemma(block: str, tools: Tools) -> tuple[Piece, ...] | None:
    """Read `call:name{key:<|"|>text<|"|>,other:1}`, with `<escape>` for the quotes of FunctionGemma; see `Body`."""
    head = _GEMMA.match(block)
    if head is None:
        return None
    parts = block[head.end() :].replace("<escape>", '<|"|>').split('<|"|>')
    if len(parts) % 2 == 0:
        return CUT
    plain = (_NONE.sub("null", _KEY.sub(lambda found: json.dumps(found[1].strip('"')) + ":", part)) for part in parts[::2])
    written = [json.dumps(part, ensure_ascii=False) for part in parts[1::2]]
    values = sampled_json.parse_arguments("".join(text for pair in zip(plain, [*written, ""], strict=True) for text in pair))
    try:
        return (Piece("tool_call", encode_values(head[1], values, tools), head[1]),) if isinstance(values, dict) else None
    except ValueError:
        return None


@frozen
class NestedElements:
    """`name="…">` and then an element for each argument, in which lists and objects are elements again (MiniMax M3)."""

    mark: str
    """What precedes each tag."""

    def __call__(self, block: str, tools: Tools) -> tuple[Piece, ...] | None:
        """Read one call; see `Body`."""
        head, *parts = block.split(self.mark)
        named = re.fullmatch(r'"([^"\n]+)"\s*>\s*', head)
        if named is None:
            return None
        tags = iter([part.partition(">") for part in parts])
        try:
            arguments = _encode_members(_read_members(tags, ""), {"properties": find_properties(named[1], tools)})
        except ValueError:
            return None
        return (Piece("tool_call", arguments, named[1]),)


Element = tuple[str, str, "list[Element]"]
"""A tag, the text in it, and the elements in it."""


def _read_members(tags: Iterator[tuple[str, str, str]], within: str) -> list[Element]:
    """Read elements up to the end of the one that they are in; raises ValueError for tags that do not match."""
    found: list[Element] = []
    for tag, _, text in tags:
        if tag == f"</{within}":
            return found
        if not tag.startswith("<") or tag.startswith("</"):
            raise ValueError(f"a tag: {tag}")
        found.append((tag[1:], text, _read_members(tags, tag[1:])))
    if within:
        raise ValueError(f"no end of {within}")
    return found


def _encode_members(members: list[Element], schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    schemas = properties if isinstance(properties, Mapping) else {}
    if len({tag for tag, _, _ in members}) < len(members):
        raise ValueError("an argument is given twice")
    texts = (
        f"{json.dumps(tag, ensure_ascii=False)}: {_encode_element(text, inner, schemas.get(tag))}" for tag, text, inner in members
    )
    return "{" + ", ".join(texts) + "}"


def _encode_element(text: str, inner: list[Element], schema: Any) -> str:
    known = schema if isinstance(schema, Mapping) else {}
    if not inner:
        empty = "" if text.strip() else {"array": "[]", "object": "{}"}.get(str(known.get("type")), "")
        return empty or encode_value(text, schema)
    if {tag for tag, _, _ in inner} == {"item"} and known.get("type") != "object":
        return "[" + ", ".join(_encode_element(*item[1:], known.get("items")) for item in inner) + "]"
    return _encode_members(inner, known)
