"""Tool calls and descriptions of tools as text, for templates that cannot show them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.model.rendering.shape_probes import PROBE
from astuner.model.rendering.template_shape import TemplateShape
from astuner.model.rendering.tool_calls.sampled_json import read_object
from astuner.shared.clients.prompts import Prompt, fill_prompt, load_prompt

PACKAGE = "astuner.model.rendering"
WRITTEN = ("hermes", "deepseek", "kimi", "lfm2", "granite")
"""The styles with a file that holds a call: `prompts/call_{style}.en.txt`."""


@frozen
class CallWriter:
    """Writes a tool call as the model does."""

    form: Prompt

    def __call__(self, name: str, arguments: str) -> str:
        """Return the text of a call; `arguments` that are not a JSON object are written as a JSON string."""
        written = read_object(arguments) or json.dumps(arguments, ensure_ascii=False)
        return self.form.fill({"name": name, "quoted_name": json.dumps(name, ensure_ascii=False), "arguments": written})

    def describe(self, tools: Sequence[Mapping[str, Any]]) -> str:
        """Return what the system message says about the tools."""
        lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        call = self("function_name", '{"argument_name": "value"}')
        return fill_prompt(PACKAGE, "tools", "en", tools=lines, call=call)


def make_call_writer(shape: TemplateShape, style: str) -> CallWriter:
    """Return a writer of calls in the form in which the template shows them, or else in the form of the style."""
    text = shape.call_example
    arguments = next((written for written in ('{"q": "v"}', '{"q":"v"}') if written in text), "")
    if text.count(PROBE) == 1 and arguments:
        return CallWriter(Prompt(text.replace(PROBE, "{{name}}").replace(arguments, "{{arguments}}"), "chat template"))
    return CallWriter(load_prompt(PACKAGE, f"call_{style if style in WRITTEN else WRITTEN[0]}", "en"))


def reads_back(write_call: CallWriter, make_parser: Callable[..., Any]) -> bool:
    """Whether a parser reads a written call."""
    parser = make_parser("", tools=({"type": "function", "function": {"name": PROBE}},), parallel=True)
    pieces = [*parser.feed(write_call(PROBE, '{"q": "v"}')), *parser.finish()]
    return [(piece.kind, piece.name) for piece in pieces] == [("tool_call", PROBE)]
