"""Every official template found in a package: its calls are read as it writes them, or a notice says that they are not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from packaged_templates import make_tokenizer, read_templates

from astuner.contract.errors import AstunerError
from astuner.model.gateway.recording.messages import normalise
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.errors import ApiError

FAMILIES: Mapping[str, str] = {
    "llama/mistralai-Mistral-Nemo-Instruct-2407": "mistral",
    "llama/Mistral-Small-3.2-24B-Instruct-2506": "mistral",
    "llama/mistralai-Ministral-3-14B-Reasoning-2512": "mistral",
    "llama/unsloth-mistral-Devstral-Small-2507": "mistral",
    "vllm/tool_chat_template_mistral": "mistral",
    "vllm/tool_chat_template_mistral_parallel": "mistral",
    "axolotl/mistral_v2v3": "mistral",
    "axolotl/mistral_v3_tekken": "mistral",
    "llama/ByteDance-Seed-OSS": "seed",
    "llama/CohereForAI-c4ai-command-r7b-12-2024-tool_use": "cohere",
    "axolotl/command_a_tool_use": "cohere",
    "axolotl/command_a_rag": "cohere",
    "llama/Cohere2MoE": "cohere",
    "axolotl/llama4": "llama3",
    "llama/meta-llama-Llama-3.3-70B-Instruct": "llama3",
    "llama/MiniMax-M2": "minimax",
    "llama/MiniMax-M3": "minimax_m3",
    "llama/MiniMax-M1": "json_list",
    "llama/meetkai-functionary-medium-v3.1": "functionary",
    "llama/moonshotai-Kimi-K2": "kimi",
    # transformers refuses to render its calls, and the tokens say how the model writes them.
    "llama/Kimi-K2-Instruct": "kimi",
    "llama/Kimi-K2-Thinking": "kimi",
    "llama/ibm-granite-granite-3.3-2B-Instruct": "granite",
    "llama/Kimi-K3": "kimi_k3",
    "llama/tencent-Hy3": "hunyuan",
    "llama/google-gemma-4-31B-it": "gemma",
    "vllm/tool_chat_template_functiongemma": "gemma",
    "llama/LFM2.5-8B-A1B": "lfm2",
    "llama/openbmb-MiniCPM5-1B": "minicpm",
    "llama/Apertus-8B-Instruct": "apertus",
    "llama/GigaChat3.1-10B-A1.8B": "gigachat",
    "llama/upstage-Solar-Open-100B": "solar",
    "axolotl/jamba": "json_list",
    "vllm/tool_chat_template_hunyuan_a13b": "json_list",
    "vllm/tool_chat_template_granite": "granite",
    "vllm/tool_chat_template_granite_20b_fc": "granite",
    "vllm/tool_chat_template_internlm2_tool": "internlm",
    "vllm/tool_chat_template_xlam_qwen": "xlam",
    "vllm/tool_chat_template_gemma3_pythonic": "python",
    "vllm/tool_chat_template_llama3.2_pythonic": "python",
    "vllm/tool_chat_template_llama4_pythonic": "python",
    "vllm/tool_chat_template_toolace": "python",
    "llama/Qwen3-Coder": "qwen_xml",
    "llama/StepFun3.5-Flash": "qwen_xml",
    "llama/GLM-4.6": "glm",
    "llama/GLM-4.7-Flash": "glm",
    "llama/inclusionai-ling-3.0-flash": "glm",
    "llama/poolside-Laguna-S-2.1": "glm",
    "llama/Spark2.5": "glm",
    "llama/ibm-granite-granite-4.1": "hermes",
    "llama/deepseek-ai-DeepSeek-V3.1": "deepseek",
    "llama/deepseek-ai-DeepSeek-V3.2": "deepseek_v32",
    "llama/deepseek-ai-DeepSeek-V4": "deepseek_v4",
    "llama/openai-gpt-oss-120b": "harmony",
}
REFUSED: Mapping[str, str] = {
    "llama/CohereForAI-c4ai-command-r-plus-tool_use": "cannot render a user and an assistant message",
    "llama/fireworks-ai-llama-3-firefunction-v2": "'functions' is undefined",
    "trl/llava_next": "has no attribute 'text'",
    "trl/llava_next_training": "has no attribute 'text'",
}
"""Templates for other variables, or for messages of parts only."""
SAID = ("does not read back", "does not show tool calls")

TOOL = {
    "type": "function",
    "function": {
        "name": "write_file",
        "description": "Writes",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "where"},
                "text": {"type": "string", "description": "what"},
                "mode": {"type": "integer", "description": "how"},
            },
        },
    },
}
USER = {"role": "user", "content": "Please write it."}
VALUES: Mapping[str, Any] = {"path": "a/b c.txt", "text": "  def f():\n    return '1'\n\nend\n", "mode": 420}


@cache
def load(name: str) -> TemplateRenderer:
    return TemplateRenderer(make_tokenizer(name))


def write_call(arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": "write_file", "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "123456789", "type": "function", "function": function}]}


def read_back(renderer: TemplateRenderer, arguments: Mapping[str, Any], *, size: int = 0) -> list[tuple[str, Any]]:
    """Render a call, find its name behind the question, and read from there, in pieces of a size."""
    header = renderer.render(normalise([USER]), [TOOL], generate=True, kwargs={})
    text = renderer.render(normalise([USER, write_call(arguments)]), [TOOL], generate=False, kwargs={})
    answer = text[len(header) :] if text.startswith(header) else text[text.rindex(USER["content"]) + len(USER["content"]) :]
    end = min(
        (place for word in renderer.turn_ends.values() if (place := answer.find(word, answer.find("write_file"))) > 0),
        default=None,
    )
    answer = answer[:end]
    parser = renderer.parser(header if text.startswith(header) else "", tools=[TOOL], parallel=True)
    parts = [answer[place : place + size] for place in range(0, len(answer), size)] if size else [answer]
    pieces = [piece for part in parts for piece in parser.feed(part)] + list(parser.finish())
    return [(piece.name, json.loads(piece.text)) for piece in pieces if piece.kind == "tool_call"]


def test_the_packages_have_their_templates() -> None:
    assert len(read_templates()) >= 200


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_family_is_recognised_by_what_reads_its_calls(name: str) -> None:
    assert load(name).tool_call_format == FAMILIES[name]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_template_for_other_variables_is_refused(name: str) -> None:
    with pytest.raises(AstunerError, match=REFUSED[name]):
        load(name)


@pytest.mark.parametrize("name", sorted(read_templates().keys() - REFUSED.keys()))
def test_the_values_of_a_call_come_back_whole_or_a_notice_says_so(name: str) -> None:
    renderer = load(name)
    if any(said in notice for notice in (*renderer.notices, *renderer.tool_notices) for said in SAID):
        return
    try:
        found = read_back(renderer, VALUES)
    except ApiError:  # the client gets a 400
        return
    assert found == [("write_file", VALUES)]
    assert read_back(renderer, VALUES, size=1) == found


@pytest.mark.parametrize("name", sorted(name for name, style in FAMILIES.items() if style == "mistral"))
def test_a_conversation_with_tools_and_a_system_message_is_served(name: str) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        write_call(VALUES),
        {"role": "tool", "tool_call_id": "123456789", "content": "done"},
    ]
    for conversation in (messages, [*messages, {"role": "assistant", "content": "It is done."}, USER]):
        text = load(name).render(normalise(conversation), [TOOL], generate=True, kwargs={})
        assert "[TOOL_CALLS]" in text
        assert text.index("Be brief.") < text.index("[TOOL_CALLS]")


@pytest.mark.parametrize("given", ["call_abcdefghijkl", "toolu_01", "123456789"])
def test_ids_that_mistral_does_not_take_become_others(given: str) -> None:
    call = write_call(VALUES)
    call["tool_calls"][0]["id"] = given
    messages = [USER, call, {"role": "tool", "tool_call_id": given, "content": "done"}]
    text = load("llama/mistralai-Mistral-Nemo-Instruct-2407").render(normalise(messages), [TOOL], generate=True, kwargs={})
    written = text.partition('"id": "')[2][:9]
    assert f'"call_id": "{written}"' in text
    assert (written == given) == (len(given) == 9)


@pytest.mark.parametrize("given", ["a1b2c3d4e", "functions.write_file:7"])
def test_a_result_names_the_id_that_kimi_wrote(given: str) -> None:
    call = write_call(VALUES)
    call["tool_calls"][0]["id"] = given
    messages = [USER, call, {"role": "tool", "tool_call_id": given, "content": "done"}]
    text = load("llama/moonshotai-Kimi-K2").render(normalise(messages), [TOOL], generate=True, kwargs={})
    assert f"## Return of {given if ':' in given else 'functions.write_file:0'}" in text
