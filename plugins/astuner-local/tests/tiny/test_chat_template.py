from __future__ import annotations

from itertools import pairwise
from typing import Any

TOOL = {"type": "function", "function": {"name": "calculator", "parameters": {"type": "object"}}}
SYSTEM = {"role": "system", "content": "Use your tools."}
USER = {"role": "user", "content": "What is 57 * 83?"}
ANSWER = {"role": "assistant", "content": "The answer is \\boxed{4731}"}


def _call(arguments: Any, content: str | None = None) -> dict[str, Any]:
    function = {"name": "calculator", "arguments": arguments}
    return {"role": "assistant", "content": content, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def _result(content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "1", "content": content}


def _render(tokenizer: Any, messages: list[dict[str, Any]], *, tools: bool = True, generate: bool = False) -> str:
    return str(
        tokenizer.apply_chat_template(messages, tools=[TOOL] if tools else None, tokenize=False, add_generation_prompt=generate)
    )


def test_a_conversation_with_a_tool_call_is_written_as_hermes_models_do(tokenizer: Any) -> None:
    expected = (
        "<|im_start|>system\nUse your tools.\nTools: calculator<|im_end|>\n"
        "<|im_start|>user\nWhat is 57 * 83?<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "calculator", "arguments": {"expression": "57*83"}}\n</tool_call>'
        "<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n4731\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\nThe answer is \\boxed{4731}<|im_end|>\n"
    )
    messages = [SYSTEM, USER, _call('{"expression": "57*83"}'), _result("4731"), ANSWER]
    assert expected == _render(tokenizer, messages)


def test_a_longer_conversation_begins_with_the_text_of_the_shorter(tokenizer: Any) -> None:
    messages = [SYSTEM, USER, _call('{"expression": "57*83"}'), _result("4731"), _result("x"), ANSWER, USER, ANSWER]
    texts = [_render(tokenizer, messages[:end]) for end in range(1, len(messages) + 1)]
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(texts))


def test_an_answer_continues_the_prompt_that_asked_for_it(tokenizer: Any) -> None:
    prompt = _render(tokenizer, [SYSTEM, USER], generate=True)
    assert prompt + ANSWER["content"] + "<|im_end|>\n" == _render(tokenizer, [SYSTEM, USER, ANSWER])


def test_arguments_in_text_are_written_verbatim(tokenizer: Any) -> None:
    assert '"arguments": {"expression":"57 *83" }}' in _render(tokenizer, [USER, _call('{"expression":"57 *83" }')])


def test_arguments_as_an_object_are_written_as_the_model_writes_them(tokenizer: Any) -> None:
    as_text, as_object = (_render(tokenizer, [USER, _call(a)]) for a in ('{"expression": "57*83"}', {"expression": "57*83"}))
    assert as_text == as_object


def test_calls_in_parallel_stand_one_after_the_other_behind_the_text(tokenizer: Any) -> None:
    call = _call("{}", "Both:")
    message = {**call, "tool_calls": call["tool_calls"] * 2}
    one = '<tool_call>\n{"name": "calculator", "arguments": {}}\n</tool_call>'
    assert f"<|im_start|>assistant\nBoth:\n{one}\n{one}<|im_end|>\n" in _render(tokenizer, [USER, message])


def test_tools_without_a_system_message_get_one(tokenizer: Any) -> None:
    assert _render(tokenizer, [USER]).startswith("<|im_start|>system\nTools: calculator<|im_end|>\n<|im_start|>user\n")


def test_no_tools_leave_no_trace(tokenizer: Any) -> None:
    assert _render(tokenizer, [USER], tools=False) == "<|im_start|>user\nWhat is 57 * 83?<|im_end|>\n"


def test_content_in_parts_is_written_as_one_text(tokenizer: Any) -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "57 * 83?"}]}
    assert _render(tokenizer, [SYSTEM, USER]) == _render(tokenizer, [SYSTEM, parts])


def test_a_developer_message_is_a_system_message(tokenizer: Any) -> None:
    assert _render(tokenizer, [SYSTEM, USER]) == _render(tokenizer, [{**SYSTEM, "role": "developer"}, USER])
