"""Any field of OpenAI's Responses and completions."""

from __future__ import annotations

from typing import Any

from openai_fields import (  # noqa: F401 - these tests are run for the paths below
    test_errors_have_one_shape_in_every_api_of_openai,
    test_every_field_takes_or_refuses_a_value_of_any_type,
    test_numbers_and_nestings_that_nothing_could_carry_are_400,
)

ADD = {"name": "add", "parameters": {"type": "object"}}
BODIES: dict[str, dict[str, Any]] = {
    "/responses": {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "1", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "3"},
        ],
        "instructions": "be brief",
        "tools": [{"type": "function", **ADD}],
        "tool_choice": {"type": "function", "name": "add"},
        "parallel_tool_calls": True,
        "max_output_tokens": 5,
        "text": {"format": {"type": "text"}},
        "reasoning": {"effort": "low"},
        "metadata": {},
        "store": True,
        "previous_response_id": None,
        "include": [],
        "top_logprobs": 1,
        "truncation": "auto",
        "stream": False,
    },
    "/completions": {
        "prompt": "hello",
        "suffix": "",
        "echo": False,
        "best_of": 1,
        "n": 1,
        "stop": "x",
        "seed": 1,
        "logprobs": 1,
        "max_tokens": 5,
        "stream": False,
        "stream_options": {},
    },
}
COUNTS: dict[str, Any] = {}
