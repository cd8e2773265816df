"""The styles of answers by name: one description for each family of models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from attrs import evolve

from astuner.model.rendering.reply_parser import Piece, Style
from astuner.model.rendering.tool_calls.call_bodies import JsonCalls, NamedJson, TaggedValues
from astuner.model.rendering.tool_calls.harmony import HarmonyParser
from astuner.model.rendering.tool_calls.marked_calls import Body, CallSection, TaggedCalls, Tools
from astuner.model.rendering.tool_calls.unclosed_calls import MISTRAL, BareList, Llama, MarkedJson
from astuner.model.rendering.tool_calls.written_values import NestedElements, read_gemma, read_python

if TYPE_CHECKING:
    from astuner.model.rendering.reply_parser import ReplyParser


MakeParser = Callable[..., "ReplyParser"]
"""Makes a parser for the answer to a rendered prompt, as `Style` does."""

_FUNCTION = TaggedValues(
    head=r"\s*(?:<function=)?(?P<name>[^<>\n]+)>",
    key=r"<parameter=(?P<key>[^<>\n]+)>",
    end="</parameter>",
    last="</function>",
    padded=True,
)
_SEED_THINK = ("<seed:think>", "</seed:think>")
_LLAMA4 = ("<|python_start|>", "<|python_end|>")
_M3 = "]<]minimax[>["


def _tag(*marks: tuple[str, str], body: Body, **style: object) -> Style:
    return Style(calls=TaggedCalls(marks, body), **style)  # type: ignore[arg-type] # the fields of a style


def _invoke(prefix: str) -> TaggedValues:
    """Return the reader of what follows `<invoke name=`; `prefix` precedes the names of the tags."""
    key = rf'<{re.escape(prefix)}parameter name="(?P<key>[^"<\n]+)"(?: string="(?P<type>true|false)")?\s*>'
    return TaggedValues(head=r'"(?P<name>[^"\n]+)"\s*>', key=key, end=f"</{prefix}parameter>")


def _section(prefix: str, section: str) -> CallSection:
    """Return a section with an element `invoke` for each call."""
    names = (f"<{section}>", f"</{section}>", f"<{prefix}invoke name=", f"</{prefix}invoke>")
    return CallSection(*names, _invoke(prefix))


def _glm(mark: str = "", head_end: str = r"(?=\s*(?:<arg_key>|$))") -> TaggedValues:
    """Return the reader of GLM's arguments; `mark` ends the names of the tags."""
    return TaggedValues(
        head=rf"\s*(?P<name>[^\s<]+)\s*{head_end}",
        key=rf"<arg_key{mark}>(?P<key>[^<\n]*?)</arg_key{mark}>\s*<arg_value{mark}>",
        end=f"</arg_value{mark}>",
        lines=False,
    )


def _read_python_or_json(block: str, tools: Tools) -> tuple[Piece, ...] | None:
    """Read the calls of LFM2, which writes them as JSON where it is asked to."""
    return JsonCalls(many=True)(block, tools) or read_python(block, tools)


STYLES: Mapping[str, MakeParser] = {
    "hermes": _tag(("<tool_call>", "</tool_call>"), body=JsonCalls()),
    "qwen_xml": _tag(("<tool_call>", "</tool_call>"), ("<function=", "</function>"), body=_FUNCTION),
    "seed": _tag(("<seed:tool_call>", "</seed:tool_call>"), body=evolve(_FUNCTION, padded=False), think=_SEED_THINK),
    "functionary": _tag(("<function=", "</function>"), body=NamedJson((r"(?P<name>[^>\n]+)>",))),
    "glm": _tag(("<tool_call>", "</tool_call>"), body=_glm()),
    "hunyuan": Style(
        calls=CallSection(
            "<tool_calls:opensource>",
            "</tool_calls:opensource>",
            "<tool_call:opensource>",
            "</tool_call:opensource>",
            _glm(":opensource", "<tool_sep:opensource>"),
        ),
        think=("<think:opensource>", "</think:opensource>"),
    ),
    "minicpm": _tag(
        ("<function name=", "</function>"),
        body=TaggedValues(
            head=r'"(?P<name>[^"\n]+)"\s*>', key=r'<param name="(?P<key>[^"<\n]+)"\s*>', end="</param>", lines=False
        ),
    ),
    "llama3": Style(calls=Llama(), frames=_LLAMA4),
    "mistral": Style(calls=MISTRAL, think=("[THINK]", "[/THINK]")),
    "granite": Style(calls=MarkedJson(("<|tool_call|>", "<function_call>", "<tool_call>"))),
    "gigachat": Style(calls=MarkedJson(("<|function_call|>", "function call<|role_sep|>"))),
    "json_list": _tag(("<tool_calls>", "</tool_calls>"), ("<TOOLCALL>", "</TOOLCALL>"), body=JsonCalls(many=True)),
    "internlm": _tag(("<|action_start|><|plugin|>", "<|action_end|>"), body=JsonCalls(arguments=("arguments", "parameters"))),
    "cohere": _tag(
        ("<|START_ACTION|>", "<|END_ACTION|>"),
        body=JsonCalls(name="tool_name", arguments=("parameters",), many=True),
        think=("<|START_THINKING|>", "<|END_THINKING|>"),
        frames=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    ),
    "apertus": _tag(
        ("<|tools_prefix|>", "<|tools_suffix|>"),
        body=JsonCalls(name="", many=True),
        think=("<|inner_prefix|>", "<|inner_suffix|>"),
    ),
    "xlam": Style(calls=BareList(JsonCalls(many=True))),
    "python": Style(calls=BareList(read_python), frames=_LLAMA4),
    "lfm2": _tag(("<|tool_call_start|>", "<|tool_call_end|>"), body=_read_python_or_json),
    "gemma": _tag(
        ("<|tool_call>", "<tool_call|>"),
        ("<start_function_call>", "<end_function_call>"),
        body=read_gemma,
        think=("<|channel>thought\n", "<channel|>"),
    ),
    "deepseek": Style(
        calls=CallSection(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            NamedJson(
                (r"\s*function<｜tool▁sep｜>(?P<name>[^\n]+)\n```(?:json)?\n", r"\s*(?P<name>[^\n<]+)<｜tool▁sep｜>"), "\n```"
            ),
        )
    ),
    "deepseek_v32": Style(calls=_section("｜DSML｜", "｜DSML｜function_calls")),
    "deepseek_v4": Style(calls=_section("｜DSML｜", "｜DSML｜tool_calls")),
    "kimi": Style(
        calls=CallSection(
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_end|>",
            NamedJson(
                (
                    r"\s*(?P<id>functions\.(?P<name>[^\s:<]+):\d+)\s*<\|tool_call_argument_begin\|>",
                    r"\s*(?:functions\.)?(?P<name>[^\s:<]+)(?::\d+)?\s*<\|tool_call_argument_begin\|>",
                )
            ),
        )
    ),
    "kimi_k3": Style(
        calls=CallSection(
            "<|open|>tools<|sep|>",
            "<|close|>tools<|sep|>",
            "<|open|>call tool=",
            "<|close|>call<|sep|>",
            TaggedValues(
                head=r'"(?P<name>[^"\n]+)"[^<]*<\|sep\|>',
                key=r'<\|open\|>argument key="(?P<key>[^"<\n]+)"(?: type="(?P<type>\w+)")?\s*<\|sep\|>',
                end="<|close|>argument<|sep|>",
                lines=False,
            ),
        ),
        think=("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        frames=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    ),
    "solar": Style(
        calls=CallSection(
            "<|tool_calls|>",
            "<|calls|>",
            "<|tool_call:begin|>",
            "<|tool_call:end|>",
            NamedJson((r"\s*(?P<id>\w*)\s*<\|tool_call:name\|>(?P<name>[^<\n]+)<\|tool_call:args\|>",)),
        ),
        frames=("<|content|>",),
    ),
    "minimax": Style(calls=_section("", "minimax:tool_call")),
    "minimax_m3": Style(
        calls=CallSection(
            f"{_M3}<tool_call>", f"{_M3}</tool_call>", f"{_M3}<invoke name=", f"{_M3}</invoke>", NestedElements(_M3)
        ),
        think=("<mm:think>", "</mm:think>"),
    ),
    "harmony": HarmonyParser,
}
"""The formats of tool calls and the reasoning that goes with them, by name."""
