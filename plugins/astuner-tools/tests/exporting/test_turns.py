"""Chat templates as Ollama's TEMPLATE, if they can be stated as turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jinja2
import pytest

from astuner_tools.exporting.ollama import Turns, find_turns

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SMOLLM = "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are SmolLM<|im_end|>\n{% endif %}" + CHATML
TRIMMED = CHATML.replace("message.content", "message.content | trim")
FIRST_ONLY = CHATML.replace("{{ message.role }}", "{{ message.role }}{{ ' first' if loop.first else '' }}")
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHATML


def turns_of(template: str, leading: str = "") -> Turns | None:
    environment = jinja2.Environment()
    compiled = environment.from_string(template)

    def render(messages: Sequence[Mapping[str, str]], opens: bool) -> str:
        return compiled.render(messages=messages, add_generation_prompt=opens)

    return find_turns(render, leading)


def test_chatml_is_stated() -> None:
    turns = turns_of(CHATML)
    assert turns is not None
    assert turns.default_system is None
    assert turns.format_go() == (
        '{{ range .Messages }}{{ if eq .Role "system" }}<|im_start|>system\n{{ .Content }}<|im_end|>\n'
        '{{ else if eq .Role "user" }}<|im_start|>user\n{{ .Content }}<|im_end|>\n'
        '{{ else if eq .Role "assistant" }}<|im_start|>assistant\n{{ .Content }}<|im_end|>\n'
        "{{ end }}{{ end }}<|im_start|>assistant\n"
    )


def test_a_default_system_message_is_found() -> None:
    turns = turns_of(SMOLLM)
    assert turns is not None
    assert turns.default_system == "You are SmolLM"


def test_a_token_that_the_program_adds_is_not_stated_again() -> None:
    turns = turns_of("<s>" + CHATML, leading="<s>")
    assert turns is not None
    assert "<s>" not in turns.format_go()


@pytest.mark.parametrize("template", [TRIMMED, FIRST_ONLY, NO_SYSTEM, "{{ messages }}", CHATML.replace("<|im_end|>", '"""')])
def test_a_template_of_another_kind_is_not(template: str) -> None:
    assert turns_of(template) is None
