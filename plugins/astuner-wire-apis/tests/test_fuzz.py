"""Malformed bodies of the APIs of this package."""

from __future__ import annotations

from typing import Any

from malformed_bodies import (  # noqa: F401 - these tests are run for the paths below
    test_malformed_bodies_are_answered_and_leave_no_trace,
    test_the_bodies_that_are_broken_here_are_whole,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FUNCTION = {"name": "add", "description": "Add.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}

BODIES: dict[str, Any] = {
    "/v1/completions": {
        "model": "m",
        "prompt": ["hello", "you"],
        "n": 2,
        "stop": "END",
        "seed": 4,
        "logprobs": 2,
        "max_tokens": 30,
        "temperature": 0.5,
        "top_p": 0.9,
        "stream": True,
        "stream_options": {"include_usage": True},
        "best_of": 2,
    },
    "/v1/responses": {
        "model": "m",
        "instructions": "be brief",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "call12345", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "call12345", "output": "3"},
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "note"}]},
            {"type": "custom_tool_call", "call_id": "call12346", "name": "patch", "namespace": "crm", "input": "+x"},
            {"type": "custom_tool_call_output", "call_id": "call12346", "output": [{"type": "input_text", "text": "ok"}]},
            {"type": "local_shell_call", "call_id": "call12347", "action": {"type": "exec", "command": ["ls"], "env": {}}},
            {"type": "local_shell_call_output", "id": "call12347", "output": "ok"},
            {"type": "shell_call", "call_id": "call12348", "action": {"commands": ["ls"], "timeout_ms": 9}},
            {"type": "shell_call_output", "call_id": "call12348", "output": [{"stdout": "a", "stderr": ""}]},
            {"type": "apply_patch_call", "call_id": "call12349", "operation": {"type": "delete_file", "path": "a"}},
            {"type": "apply_patch_call_output", "call_id": "call12349", "status": "completed", "output": "ok"},
            {"type": "tool_search_call", "call_id": "call12340", "execution": "client", "arguments": {"query": "add"}},
            {"type": "tool_search_output", "call_id": "call12340", "tools": [{"type": "function", "name": "sub"}]},
            {"type": "agent_message", "author": "/root", "content": [{"type": "encrypted_content", "encrypted_content": "hi"}]},
        ],
        "tools": [
            {"type": "function", **FUNCTION},
            {"type": "namespace", "name": "crm", "tools": [{"type": "custom", "name": "patch", "format": GRAMMAR}]},
            {"type": "tool_search", "execution": "client", "parameters": SCHEMA},
            {"type": "local_shell"},
            {"type": "shell"},
            {"type": "apply_patch"},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "function", "name": "add"},
        "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}},
        "reasoning": {"effort": "low"},
        "max_output_tokens": 30,
        "temperature": 0.5,
        "include": ["message.output_text.logprobs"],
        "stream": True,
        "metadata": {"a": "b"},
        "truncation": "disabled",
        "previous_response_id": None,
    },
    "/v1/messages": {
        "model": "m",
        "max_tokens": 30,
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "let me see"},
                    {"type": "tool_use", "id": "call12345", "name": "add", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call12345",
                        "content": [{"type": "text", "text": "3"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "tools": [{"name": "add", "description": "Add.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "stop_sequences": ["END"],
        "temperature": 0.5,
        "top_k": 5,
        "stream": True,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        "metadata": {"user_id": "me"},
    },
}
COUNTS: dict[str, Any] = {"/v1/messages/count_tokens": BODIES["/v1/messages"]}
BODIES["/v1beta/models/{model}:generateContent"] = {
    "systemInstruction": {"parts": [{"text": "be brief"}]},
    "contents": [
        {"role": "user", "parts": [{"text": "hello"}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True, "thoughtSignature": "s"},
                {"text": "let me see"},
                {"functionCall": {"id": "call12345", "name": "add", "args": {"a": 1}}},
                {"functionCall": {"name": "add", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "call12345", "name": "add", "response": {"output": "3"}}},
                {"functionResponse": {"name": "add", "response": {"error": "none"}}},
                {"text": "go on"},
            ],
        },
    ],
    "tools": [{"functionDeclarations": [{**FUNCTION, "parameters": {"type": "OBJECT"}}]}, {"googleSearch": {}}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}},
    "generationConfig": {
        "temperature": 1,
        "topP": 0.95,
        "topK": 64,
        "candidateCount": 1,
        "maxOutputTokens": 30,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH", "thinkingBudget": 5},
    },
}
BODIES["/v1beta/models/{model}:streamGenerateContent"] = BODIES["/v1beta/models/{model}:generateContent"]
COUNTS["/v1beta/models/{model}:countTokens"] = BODIES["/v1beta/models/{model}:generateContent"]
