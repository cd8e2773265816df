"""Parsers for the text between the markers of a tool call, by model family."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from astuner.model.rendering.tool_calls import sampled_json
from astuner.model.rendering.tool_calls.typed_arguments import encode_arguments

Tools = Sequence[Mapping[str, Any]]
Read = tuple[str, str] | None

_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>(.*?)</parameter>\s*", re.DOTALL)
_GLM_NAME = re.compile(r"\s*([^\s<]+)\s*(?=<arg_key>|$)")
_GLM_PAIR = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)
_DEEPSEEK_FENCED = re.compile(r"\s*function<｜tool▁sep｜>([^\n]+)\n```(?:json)?\n(.*)\n```\s*", re.DOTALL)
_DEEPSEEK_PLAIN = re.compile(r"\s*([^\n<]+)<｜tool▁sep｜>(.*)", re.DOTALL)
_KIMI = re.compile(r"\s*(?:functions\.)?([^\s:<]+)(?::\d+)?\s*<\|tool_call_argument_begin\|>(.*)", re.DOTALL)


def read_hermes(block: str, tools: Tools) -> Read:
    """Read `{"name": …, "arguments": …}`."""
    return sampled_json.read_call(block)


def read_qwen_xml(block: str, tools: Tools) -> Read:
    """Read `<function=name><parameter=key>value</parameter>…</function>`."""
    found = _FUNCTION.fullmatch(block)
    return _read_pairs(found[1].strip(), found[2], _PARAMETER, tools) if found else None


def read_glm(block: str, tools: Tools) -> Read:
    """Read `name<arg_key>key</arg_key><arg_value>value</arg_value>…`."""
    found = _GLM_NAME.match(block)
    return _read_pairs(found[1], block[found.end() :], _GLM_PAIR, tools) if found else None


def read_deepseek(block: str, tools: Tools) -> Read:
    """Read `function<｜tool▁sep｜>name` with fenced JSON (V3, R1), or `name<｜tool▁sep｜>{…}` (V3.1)."""
    found = _DEEPSEEK_FENCED.fullmatch(block) or _DEEPSEEK_PLAIN.fullmatch(block)
    return _read_json(found)


def read_kimi(block: str, tools: Tools) -> Read:
    """Read `functions.name:0<|tool_call_argument_begin|>{…}`."""
    return _read_json(_KIMI.fullmatch(block))


def make_invoke_reader(prefix: str = "") -> Callable[[str, Tools], Read]:
    """Return a reader of what follows `<invoke name=`: `"name"><parameter name="key">value</parameter>…`.

    `prefix` precedes the names of the tags. A parameter with `string="true"` is a string.
    """
    tag = re.escape(prefix)
    head = re.compile(r'"([^"\n]+)"\s*>')
    pair = re.compile(rf'\s*<{tag}parameter name="([^"\n]+)"(?: string="(true|false)")?\s*>(.*?)</{tag}parameter>\s*', re.DOTALL)

    def read(block: str, tools: Tools) -> Read:
        found = head.match(block)
        if found is None:
            return None
        name, rest = found[1], block[found.end() :]
        pairs = list(pair.finditer(rest))
        if "".join(match[0] for match in pairs) != rest and rest.strip():
            return None
        strings = {match[1]: {"type": "string"} for match in pairs if match[2] == "true"}
        schemas = [{"function": {"name": name, "parameters": {"properties": strings}}}] if strings else tools
        arguments = encode_arguments(name, ((match[1], _strip_padding(match[3])) for match in pairs), schemas)
        return None if arguments is None else (name, arguments)

    return read


def _read_pairs(name: str, rest: str, pair: re.Pattern[str], tools: Tools) -> Read:
    pairs = list(pair.finditer(rest))
    if "".join(match[0] for match in pairs) != rest and rest.strip():
        return None
    arguments = encode_arguments(name, ((match[1].strip(), _strip_padding(match[2])) for match in pairs), tools)
    return None if arguments is None else (name, arguments)


def _strip_padding(text: str) -> str:
    """Templates put a value on its own lines; all other white space is the model's."""
    return text.removeprefix("\n").removesuffix("\n")


def _read_json(found: re.Match[str] | None) -> Read:
    arguments = sampled_json.read_object(found[2]) if found else None
    return (found[1].strip(), arguments) if found and arguments is not None else None
