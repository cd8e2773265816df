"""What a model's chat template cannot show is reported when rollouts start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from official_templates import official_renderer

from astuner import Workflow, WorkflowOutput
from astuner.model.rendering import TemplateRenderer


class Idle(Workflow):
    async def execute(self, workflow_task: Any, tuner: Any) -> WorkflowOutput:
        return WorkflowOutput()


@pytest.fixture
def renderer() -> TemplateRenderer:
    return official_renderer("gemma")


class Asking(Workflow):
    async def execute(self, workflow_task: Any, tuner: Any) -> WorkflowOutput:
        client, asked = tuner.as_raw_openai_sdk_client(), [{"role": "user", "content": "?"}]
        await client.chat.completions.create(model="m", messages=asked)
        tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
        await client.chat.completions.create(model="m", messages=asked, tools=[tool])
        return WorkflowOutput()


SYSTEM = "model.path: the model's chat template takes no system message, so it goes before the text of the first user message."


def test_what_the_template_cannot_show_is_reported_once_before_any_call(stage: Callable[..., Any]) -> None:
    made = stage(Idle, lambda prompt, request: "never called")
    made.play(3)
    assert made.told == [SYSTEM]


def test_what_it_cannot_show_of_tools_is_reported_once_there_are_tools(stage: Callable[..., Any]) -> None:
    made = stage(Asking, lambda prompt, request: "No.")
    made.play(3)
    assert made.told == [
        SYSTEM,
        "model.path: the model's chat template does not show tools, so they go into the system message (model.tools_in_prompt).",
        "model.path: the model's chat template does not show tool calls, so they go into the text of an answer, as "
        "tool_call_format 'hermes' writes them, and are read from there.",
    ]
