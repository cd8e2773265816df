"""Malformed bodies of chat completions."""

from __future__ import annotations

from typing import Any

from malformed_bodies import (  # noqa: F401 - these tests are run for the paths below
    test_malformed_bodies_are_answered_and_leave_no_trace,
    test_the_bodies_that_are_broken_here_are_whole,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FUNCTION = {"name": "add", "description": "Add.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}

BODIES: dict[str, Any] = {
    "/v1/chat/completions": {
        "model": "m",
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "name": "friday", "content": [{"type": "text", "text": "hello"}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [{"id": "call12345", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
            },
            {"role": "tool", "tool_call_id": "call12345", "content": "3"},
        ],
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        "n": 2,
        "stop": ["END"],
        "seed": 4,
        "logprobs": True,
        "top_logprobs": 2,
        "max_tokens": 30,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": False},
        "presence_penalty": 1,
        "metadata": {"a": "b"},
    },
}
COUNTS: dict[str, Any] = {}
