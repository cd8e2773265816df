"""What AgentScope 2's model is given without being asked: the length of the context, and the reasoning of earlier turns."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.model.gateway.tuner import ModelFacts, RemoteTuner
from astuner.settings.config.auxiliary_models import AuxiliaryModel
from astuner_devkit.command_line import run_command
from astuner_devkit.project import write_project

CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "12*34"}}\n</tool_call>'

WAITING_AGENT = """
from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.tool import FunctionTool, Toolkit


def calculator(expression: str) -> str:
    \"\"\"Calculate.\"\"\"
    return "408"


async def workflow(task, model):
    agent = Agent(name="a", system_prompt="Use tools.", model=model, toolkit=Toolkit(tools=[FunctionTool(calculator)]))
    return Output(await agent.reply(UserMsg(name="user", content=task["question"])))


class Output:
    def __init__(self, response):
        self.reward, self.response, self.metrics = 1.0, response, None
"""

TUNER = RemoteTuner("http://127.0.0.1:1/v1", "secret", "m", ("agent",), ModelFacts(context_size=900, trained_context_size=700))


@pytest.mark.asyncio
async def test_the_model_is_given_the_context_length_that_the_gateway_enforces(playing: Callable[..., Any]):
    async with playing(("x",)) as stage:
        assert stage.recorder.tuner.as_agentscope_model().context_size == 8000
        assert stage.recorder.tuner.as_agentscope_model(context_size=1200).context_size == 1200
        assert pickle.loads(pickle.dumps(stage.recorder.tuner)).as_agentscope_model().context_size == 8000


@pytest.mark.asyncio
async def test_a_long_conversation_is_compressed_before_the_context_is_full(playing: Callable[..., Any]):
    agent_module, message = importlib.import_module("agentscope.agent"), importlib.import_module("agentscope.message")
    # One token of the tiny tokenizer, and more by AgentScope's estimate, a token for four bytes.
    long = " assistant" * 300
    async with playing((long,) * 60) as stage:
        injection = agent_module.InjectionConfig(inject_runtime_state=False)
        model = stage.recorder.tuner.as_agentscope_model()
        agent = agent_module.Agent(name="a", system_prompt="Talk.", model=model, injection_config=injection)
        # Without compression these turns are 9,600 tokens, more than the context.
        for _ in range(16):
            await agent.reply(message.UserMsg(name="user", content=long))
        calls = stage.recorder.calls
    assert any(call.parent is None for call in calls[1:])
    assert {call.untrained for call in calls} == {None}


def test_frozen_agents_have_the_whole_context():
    assert TUNER.as_agentscope_model().context_size == 700
    assert TUNER.as_agentscope_model("judge").context_size == 900


def test_the_formatter_sends_reasoning_back_where_the_template_shows_it():
    formatters = importlib.import_module("agentscope.formatter")
    shows = evolve(TUNER, facts=evolve(TUNER.facts, shows_reasoning=True))
    assert type(TUNER.as_agentscope_model().formatter) is formatters.OpenAIChatFormatter
    assert type(shows.as_agentscope_model().formatter) is formatters.DeepSeekChatFormatter
    chosen = formatters.OpenAIChatFormatter()
    assert shows.as_agentscope_model(formatter=chosen).formatter is chosen


def test_auxiliary_models_have_their_own_address_and_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("A_KEY", "sk-a")
    models = {
        "judge": AuxiliaryModel(
            base_url="http://127.0.0.1:2/v1", model="large", api_key_env="A_KEY", max_tokens=9, context_size=50
        ),
        "player": AuxiliaryModel(temperature=0.5),
    }
    made = evolve(
        TUNER, trainable_targets=None, facts=evolve(TUNER.facts, auxiliary_models=models)
    ).as_agentscope_auxiliary_models()
    judge, player = made["judge"], made["player"]
    assert (str(judge.client.base_url), judge.client.api_key, judge.model) == ("http://127.0.0.1:2/v1/", "sk-a", "large")
    assert (judge.parameters.max_tokens, judge.context_size, judge.stream) == (9, 50, False)
    assert (str(player.client.base_url), player.parameters.temperature, player.stream) == ("http://127.0.0.1:1/v1/", 0.5, False)
    assert player.context_size == 900


def test_an_agent_that_waits_for_a_permission_is_reported_with_the_remedy(tmp_path: Path):
    (tmp_path / "agent.py").write_text(WAITING_AGENT)
    write_project(tmp_path, tasks=[{"question": "12 * 34?"}], replies=(CALL,), workflow="./agent.py:workflow")
    finished = run_command("run", "--conf", "project.yaml", cwd=tmp_path)
    assert finished.code == 0, finished.err
    said = [line for line in finished.err.splitlines() if "waited for the permission to run calculator" in line]
    assert len(said) == 1
    assert "is_read_only=True" in said[0]
