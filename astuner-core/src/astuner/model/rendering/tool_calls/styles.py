"""The styles of answers by name, and how the style of a model is recognised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from astuner.model.rendering.reply_parser import Style
from astuner.model.rendering.tool_calls import call_parsers
from astuner.model.rendering.tool_calls.harmony import HarmonyParser
from astuner.model.rendering.tool_calls.marked_calls import CallSection, TaggedCalls
from astuner.model.rendering.tool_calls.unclosed_calls import Llama, Mistral

if TYPE_CHECKING:
    from astuner.model.rendering.reply_parser import ReplyParser


MakeParser = Callable[..., "ReplyParser"]
"""Makes a parser for the answer to a rendered prompt, as `Style` does."""


def _make_dsml_section(section: str) -> CallSection:
    tag = "｜DSML｜"
    return CallSection(
        f"<{tag}{section}>", f"</{tag}{section}>", f"<{tag}invoke name=", f"</{tag}invoke>", call_parsers.make_invoke_reader(tag)
    )


STYLES: Mapping[str, MakeParser] = {
    "hermes": Style(calls=TaggedCalls("<tool_call>", "</tool_call>", call_parsers.read_hermes)),
    "qwen_xml": Style(calls=TaggedCalls("<tool_call>", "</tool_call>", call_parsers.read_qwen_xml)),
    "glm": Style(calls=TaggedCalls("<tool_call>", "</tool_call>", call_parsers.read_glm)),
    "llama3": Style(calls=Llama()),
    "mistral": Style(calls=Mistral(), think=("[THINK]", "[/THINK]")),
    "deepseek": Style(
        calls=CallSection(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            call_parsers.read_deepseek,
        )
    ),
    "deepseek_v32": Style(calls=_make_dsml_section("function_calls")),
    "deepseek_v4": Style(calls=_make_dsml_section("tool_calls")),
    "kimi": Style(
        calls=CallSection(
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_end|>",
            call_parsers.read_kimi,
        )
    ),
    "minimax": Style(
        calls=CallSection(
            "<minimax:tool_call>", "</minimax:tool_call>", "<invoke name=", "</invoke>", call_parsers.make_invoke_reader()
        )
    ),
    "harmony": HarmonyParser,
}
"""The formats of tool calls and the reasoning that goes with them, by name."""

_MARKERS: Mapping[str, str] = {
    "<｜DSML｜function_calls>": "deepseek_v32",
    "<｜DSML｜tool_calls>": "deepseek_v4",
    "<｜tool▁call": "deepseek",
    "<|tool_call_argument_begin|>": "kimi",
    "<minimax:tool_call>": "minimax",
    "[TOOL_CALLS]": "mistral",
    "<arg_key>": "glm",
    "<function=": "qwen_xml",
    "<|channel|>": "harmony",
    "<tool_call>": "hermes",
    "<|python_tag|>": "llama3",
    '"parameters":': "llama3",
}
"""Text that identifies each style, the most specific first: three share `<tool_call>`."""


def recognise(called: str, specials: Collection[str]) -> str | None:
    """Return the name of the style in which a template writes a call; None if nothing identifies one.

    `called` is that part of a rendered conversation. A template that writes none is recognised by the `specials` of its
    tokenizer, where only the tokens of one family count.
    """
    for marker, name in _MARKERS.items():
        if marker in called:
            return name
    if "<|channel|>" in specials and "<|message|>" in specials:
        return "harmony"
    # The template of R1's distilled models shows calls only with a content of null, which transformers leaves out.
    return "deepseek" if "<｜tool▁calls▁begin｜>" in specials else None
