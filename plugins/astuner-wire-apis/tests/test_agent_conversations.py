"""Conversations as stock agents send them, through every official template.

Codex sends `instructions`, developer messages at the beginning and later ones, and several user messages in a row; Claude Code
sends system messages and texts after tool results; opencode sends two system messages; Gemini's CLI opens with a turn of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from attrs import define, field, frozen
from hypothesis import example, given, settings
from hypothesis import strategies as st
from official_templates import FAMILIES, official_renderer

from astuner.contract.schema import Call, Capabilities, Chunk, Request, Sampling
from astuner.model.gateway import EpisodeRecorder, EpisodeSpec
from astuner.model.gateway.api_keys import Caller
from astuner.model.gateway.recording.choice_events import Done
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.wire_apis.chat_completions import chat_request
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.errors import ApiError
from astuner_wire_apis.anthropic_request import messages_request
from astuner_wire_apis.gemini_request import gemini_request
from astuner_wire_apis.responses_request import responses_request

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
CODER_CALL = "<tool_call>\n<function=look>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>"
GLM_CALL = "<tool_call>look\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>"
HARMONY_CALL = '<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"city": "Rome"}'
LFM2_CALL = "<|tool_call_start|>[look(city='Rome')]<|tool_call_end|>"
CALLS = {"qwen_xml": CODER_CALL, "glm": GLM_CALL, "harmony": HARMONY_CALL, "lfm2": LFM2_CALL}
"""The call of each style that is not written as JSON between two marks."""


@frozen(kw_only=True)
class Step:
    """What an agent adds to its conversation before a call, and how the model answers."""

    adds: tuple[str, ...]
    """The roles of the messages, after the results of earlier tool calls; `result` stands for those alone."""
    calls_tool: bool


Play = tuple[Step, ...]


@define(eq=False)
class Model:
    """An engine that answers each call as the family's model does: with a tool call, or with a text."""

    renderer: TemplateRenderer
    end: str
    answers: list[bool]
    prompts: list[str] = field(factory=list)
    """Those of the calls so far, as text."""
    capabilities: Capabilities = field(factory=Capabilities)

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        prompt = self.renderer.decode(list(request.prompt_ids))
        text = self.answer(prompt, f"answer{len(self.prompts)}", self.answers.pop(0))
        self.prompts.append(prompt)
        ids = [*self.renderer.encode(text).tolist(), self.renderer.specials[self.end]]
        yield Chunk(ids=ids, logprobs=[-1.0] * len(ids), finish_reason="stop", weight_version=0)

    def answer(self, prompt: str, text: str, calls_tool: bool) -> str:
        style = self.renderer.tool_call_format
        if calls_tool:
            said = CALLS.get(style) or self.renderer._write_call("look", '{"city": "Rome"}')
        else:
            said = f"<|channel|>final<|message|>{text}" if style == "harmony" else text
        return f"hm\n</think>\n\n{said}" if prompt.rstrip().endswith("<think>") else said

    async def release(self, session: str) -> None: ...


@frozen(kw_only=True)
class Played:
    """What is left of an episode."""

    calls: Sequence[Call]
    prompt: str
    """The last prompt."""
    texts: Sequence[str]
    """The texts of the messages that it should show, in order."""
    notices: Sequence[str]


def play(renderer: TemplateRenderer, end: str, steps: Play, agent: type[Agent]) -> Played:
    """Play an episode; raises ApiError for a call that is refused."""
    return asyncio.run(_play(Model(renderer, end, [step.calls_tool for step in steps]), steps, agent()))


async def _play(model: Model, steps: Play, agent: Agent) -> Played:
    spec = EpisodeSpec(episode_id="e", seed=1, sampling=Sampling(max_tokens=400), max_model_len=100_000, trainable_targets=None)
    recorder = EpisodeRecorder(spec, model, model.renderer, serial=0, tuner=None, forget=lambda: None)  # type: ignore[arg-type]
    for step in steps:
        for role in step.adds:
            agent.add(role)
        texts = tuple(agent.texts)
        turn = recorder.begin(agent.request(), Caller("s", "a", "a"))
        while not isinstance(done := await turn.wait(), Done):
            pass
        assert not isinstance(done.result, Exception)
        reply = done.result.reply
        assert bool(reply.get("tool_calls")) == step.calls_tool, reply
        agent.take(reply)
    notices = list(recorder.notices)
    await recorder.close()
    return Played(calls=recorder.calls, prompt=model.prompts[-1], texts=texts, notices=notices)


@define(eq=False)
class Agent:
    """A conversation in one API: numbered texts, so that a prompt shows which of them the model sees."""

    items: list[Any] = field(factory=list)
    texts: list[str] = field(factory=list)

    def text(self, role: str) -> str:
        self.texts.append(f"{role}{len(self.texts)}text")
        return self.texts[-1]

    def add(self, role: str) -> None:
        """Add a message of a role; `result` adds nothing, since results are sent with the answer."""
        raise NotImplementedError

    def take(self, reply: Mapping[str, Any]) -> None:
        """Add an answer, and the results of its tool calls."""
        raise NotImplementedError

    def request(self) -> ChatRequest:
        raise NotImplementedError


class OpenCode(Agent):
    def add(self, role: str) -> None:
        if role != "result":
            self.items.append({"role": role, "content": self.text(role)})

    def take(self, reply: Mapping[str, Any]) -> None:
        self.items.append(json.loads(json.dumps(reply)))
        for call in reply.get("tool_calls", ()):
            self.items.append({"role": "tool", "tool_call_id": call["id"], "content": self.text("result")})

    def request(self) -> ChatRequest:
        tool = {"type": "function", "function": {"name": "look", "description": "d", "parameters": PARAMETERS}}
        return chat_request({"messages": self.items, "tools": [tool]})


class Codex(Agent):
    def add(self, role: str) -> None:
        if role != "result":
            kind = "developer" if role == "system" else role
            self.items.append({"type": "message", "role": kind, "content": [{"type": "input_text", "text": self.text(role)}]})

    def take(self, reply: Mapping[str, Any]) -> None:
        if reply.get("reasoning_content"):
            content = [{"type": "reasoning_text", "text": reply["reasoning_content"]}]
            self.items.append({"type": "reasoning", "id": "r", "summary": [], "content": content})
        if reply.get("content"):
            content = [{"type": "output_text", "text": reply["content"], "annotations": []}]
            self.items.append({"type": "message", "role": "assistant", "content": content})
        for call in reply.get("tool_calls", ()):
            self.items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
        for call in reply.get("tool_calls", ()):
            self.items.append({"type": "function_call_output", "call_id": call["id"], "output": self.text("result")})

    def request(self) -> ChatRequest:
        tool = {"type": "function", "name": "look", "description": "d", "parameters": PARAMETERS}
        return responses_request({"instructions": "instructions", "input": self.items, "tools": [tool]})


class ClaudeCode(Agent):
    def add(self, role: str) -> None:
        if role != "result":
            self.items.append({"role": role, "content": [{"type": "text", "text": self.text(role)}]})

    def take(self, reply: Mapping[str, Any]) -> None:
        thought, calls = reply.get("reasoning_content"), reply.get("tool_calls", ())
        blocks = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
        blocks += [{"type": "text", "text": reply["content"]}] if reply.get("content") else []
        for call in calls:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})
        self.items.append({"role": "assistant", "content": blocks})
        if calls:
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": self.text("result")} for call in calls]
            self.items.append({"role": "user", "content": results})

    def request(self) -> ChatRequest:
        tool = {"name": "look", "description": "d", "input_schema": PARAMETERS}
        system = [{"type": "text", "text": "You are"}, {"type": "text", "text": "instructions"}]
        return messages_request({"system": system, "messages": self.items, "tools": [tool], "max_tokens": 400})


class GeminiCli(Agent):
    """Its API has one instruction and no later ones; it begins with a turn of its own."""

    def add(self, role: str) -> None:
        if role != "result":
            self.items.append({"role": "user", "parts": [{"text": self.text(role)}]})
        if len(self.items) == 1:
            self.items.append({"role": "model", "parts": [{"text": "Got it."}]})
            self.add("user")

    def take(self, reply: Mapping[str, Any]) -> None:
        thought, calls = reply.get("reasoning_content"), reply.get("tool_calls", ())
        parts = [{"text": thought, "thought": True}] if thought else []
        parts += [{"text": reply["content"]}] if reply.get("content") else []
        named = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
        self.items.append({"role": "model", "parts": [*parts, *({"functionCall": {"name": n, "args": a}} for n, a in named)]})
        if named:
            results = [{"functionResponse": {"name": n, "response": {"output": self.text("result")}}} for n, _ in named]
            self.items.append({"role": "user", "parts": results})

    def request(self) -> ChatRequest:
        tools = [{"functionDeclarations": [{"name": "look", "description": "d", "parameters": PARAMETERS}]}]
        instruction = {"parts": [{"text": "instructions"}]}
        return gemini_request({"systemInstruction": instruction, "contents": self.items, "tools": tools})


AGENTS: Sequence[type[Agent]] = (OpenCode, Codex, ClaudeCode, GeminiCli)
ROLES = st.sampled_from(["user", "system"])


@st.composite
def plays(draw: Callable[[Any], Any]) -> Play:
    """Some first system messages, some users in a row; later both in any order, after answers and after tool results."""
    first = (*["system"] * draw(st.integers(0, 2)), *["user"] * draw(st.integers(1, 3)))
    found = [Step(adds=first, calls_tool=draw(st.booleans()))]
    for _ in range(draw(st.integers(0, 4))):
        added = draw(st.lists(ROLES, max_size=3))
        # An answer without a tool call needs a question after it, which ends the agent's turn.
        more = [] if found[-1].calls_tool else ["user"]
        found.append(Step(adds=(*added, *more) or ("result",), calls_tool=draw(st.booleans())))
    return tuple(found)


@cache
def grows(family: str, *after: str, calls_tool: bool) -> bool:
    """Whether a call continues the one before it, with a tool call or a text as its answer and plain users after that.

    Some templates leave old reasoning out once a user follows.
    """
    steps = (Step(adds=("user",), calls_tool=calls_tool), Step(adds=after, calls_tool=False))
    return play(official_renderer(family), FAMILIES[family], steps, OpenCode).calls[1].parent == 0


def should_grow(family: str, before: Step, step: Step) -> bool:
    return grows(family, "result" if step.adds == ("result",) else "user", calls_tool=before.calls_tool)


FORGETFUL = {
    *("qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "nemotron_3_nano", "nemotron_3_super"),
    *("deepseekv3", "deepseek_r1_distill"),
}
"""Their templates open reasoning in the header of an answer, and leave it out once a user follows."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_conversation_of_users_grows_unless_the_template_forgets_reasoning(family: str) -> None:
    assert grows(family, "user", calls_tool=False) == grows(family, "user", calls_tool=True) == (family not in FORGETFUL)
    assert grows(family, "result", calls_tool=True) != family.startswith("deepseek")


MIDDLE = (
    Step(adds=("system", "system", "user", "user"), calls_tool=True),
    Step(adds=("result",), calls_tool=True),
    Step(adds=("system",), calls_tool=False),
    Step(adds=("system", "user"), calls_tool=True),
    Step(adds=("user", "system"), calls_tool=False),
)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=6)
@given(steps=plays())
@example(steps=MIDDLE)
def test_none_is_refused_and_each_call_continues_the_last(family: str, agent: type[Agent], steps: Play) -> None:
    played = play(official_renderer(family), FAMILIES[family], steps, agent)
    places = [played.prompt.find(text) for text in played.texts]
    assert places == sorted(places)
    assert min(places) >= 0
    wanted = [index if should_grow(family, *pair) else None for index, pair in enumerate(pairwise(steps))]
    assert [None if want is None else call.parent for call, want in zip(played.calls[1:], wanted, strict=True)] == wanted


LATE = (Step(adds=("user",), calls_tool=False), Step(adds=("system", "user"), calls_tool=False))
STRICT = {
    *("qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "gemma", "gemma3", "gptoss"),
    *("deepseekv3", "deepseek_r1_distill", "cohere", "cohere2"),
}
"""Their templates refuse, drop, or move to the front a system message in the middle of a conversation."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_late_system_message_that_becomes_a_users_is_reported_once(family: str) -> None:
    renderer = official_renderer(family)
    notices = play(renderer, FAMILIES[family], (*LATE, *LATE[1:]), Codex).notices
    late = [text for text in notices if "in the middle of a conversation" in text]
    assert sorted(notices) == sorted([*late, *renderer.tool_notices])
    assert len(late) == (family in STRICT)


def test_as_a_user_on_request() -> None:
    renderer = official_renderer("qwen2_5", late_system_messages="user")
    played = play(renderer, FAMILIES["qwen2_5"], LATE, Codex)
    assert [call.parent for call in played.calls] == [None, 0]
    assert played.prompt.count("<|im_start|>system") == 1
    assert played.notices


def test_or_left_to_the_template() -> None:
    with pytest.raises(ApiError, match="System message must be at the beginning"):
        play(official_renderer("qwen3_6", late_system_messages="template"), FAMILIES["qwen3_6"], LATE, Codex)
    with pytest.raises(ApiError, match="System message must be at the beginning"):
        play(official_renderer("qwen3_6", late_system_messages="template"), FAMILIES["qwen3_6"], MIDDLE[:1], OpenCode)


def test_instructions_and_developer_messages_are_one_system_message_if_the_template_takes_one() -> None:
    prompt = play(official_renderer("qwen3_6"), FAMILIES["qwen3_6"], MIDDLE[:1], Codex).prompt
    assert prompt.count("<|im_start|>system") == 1
    assert "instructions\n\nsystem0text\n\nsystem1text<|im_end|>" in prompt
    assert play(official_renderer("qwen3"), FAMILIES["qwen3"], MIDDLE[:1], Codex).prompt.count("<|im_start|>system") == 3
