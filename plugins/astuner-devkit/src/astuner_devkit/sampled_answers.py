"""Made-up sampled answers, for tests of detectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from astuner.contract.protocols import Sampled
from astuner_devkit.episodes import episode


def make_sampled(
    text: str,
    *,
    tool_calls: Sequence[tuple[str, Any]] = (),
    malformed: int = 0,
    tools: Sequence[Mapping[str, Any]] = (),
    special_tokens: Sequence[str] = (),
    finish_reason: str = "stop",
) -> Sampled:
    """Return an answer as detectors see it.

    `tool_calls` are pairs of a name and the arguments, which are text or become JSON; `malformed` counts those that could not be
    read. The ids are made up: a third of the text's bytes.
    """
    reply: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        reply["tool_calls"] = [_tool_call(number, *call) for number, call in enumerate(tool_calls)]
    if malformed:
        reply["malformed_tool_call"] = malformed
    ids = np.frombuffer(text.encode("utf-8", "surrogatepass")[::3], np.uint8).astype(np.int32)
    call = evolve(
        episode().calls[0],
        output_ids=ids,
        logprobs=np.full(len(ids), -0.5, np.float32),
        finish_reason=finish_reason,
        reply=reply,
        tools=tuple(tools),
    )
    return Sampled(call=call, text=text, tools=tuple(tools), special_tokens=tuple(special_tokens))


def function_tool(name: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool in OpenAI's form; `parameters` is the JSON schema of its arguments."""
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


def _tool_call(number: int, name: str, arguments: Any) -> Mapping[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}
