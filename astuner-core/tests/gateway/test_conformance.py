"""Every template and every shape of conversation: a call continues a recorded stream as a full rendering would, or branches."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from official_templates import FAMILIES as OFFICIAL
from official_templates import official_renderer

from astuner.contract.schema import Capabilities, Chunk, Request, Sampling
from astuner.contract.token_streams import prompt_length, stream_ids
from astuner.model.gateway import EpisodeRecorder, EpisodeSpec
from astuner.model.gateway.api_keys import Caller
from astuner.model.gateway.recording.choice_events import Answer, Done
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.wire_apis.chat_completions import chat_request
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.errors import ApiError
from astuner_devkit.tokenizer import tiny_tokenizer


@frozen
class Family:
    specials: tuple[str, ...] = ()
    eos: str = "<|im_end|>"
    official: bool = False
    """With the template that the family's models ship."""
    bridges: int = 2
    """How many of two answers are continued: a template that shows an old answer in another way branches."""


MISTRAL = (
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
)
KIMI = (
    "[BOS]",
    "[EOS]",
    "<|im_system|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_middle|>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_argument_begin|>",
)

BRIDGES = {
    **dict.fromkeys(("qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "nemotron_3_nano", "nemotron_3_super"), 1),
    **dict.fromkeys(("deepseekv3", "deepseek_r1_distill"), 0),
}
"""Official templates that show an old answer in another way than its header began."""
# No style reads the calls that the template of LFM2.5 writes, so what it writes cannot be compared with what was sampled.
READABLE = [name for name in OFFICIAL if name != "lfm2_2_5"]

FAMILIES = {
    "chatml": Family(),
    "plain": Family(),
    "forgetful": Family(),
    "alternating": Family(),
    "mistral": Family(MISTRAL, "</s>", bridges=1),
    "kimi": Family(KIMI, "<|im_end|>"),
    **{name: Family(official=True, bridges=BRIDGES.get(name, 2)) for name in READABLE},
}


@cache
def renderer_of(name: str) -> TemplateRenderer:
    family = FAMILIES[name]
    if family.official:
        return official_renderer(name)
    path = Path(__file__).parents[1] / "rendering" / "templates" / f"{name}.jinja"
    tokenizer: Any = tiny_tokenizer(path.read_text(encoding="utf-8") if path.exists() else None)
    tokenizer.add_special_tokens({"additional_special_tokens": list(family.specials)})
    tokenizer.eos_token = family.eos
    return TemplateRenderer(tokenizer)


TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": properties}},
    }
    for name, properties in (("add", {"a": {"type": "integer"}, "why": {"type": "string"}}), ("look", {}))
]

ADD = {
    "hermes": [
        '<tool_call>\n{"name": "add", "arguments": {"a": 1, "why": "é"}}\n</tool_call>',
        '<tool_call>{"name":"look","arguments":{}}</tool_call>',
    ],
    "qwen_xml": [
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=why>\nso\n</parameter>\n</function>\n</tool_call>",
        "<tool_call><function=look></function></tool_call>",
    ],
    "glm": [
        "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        "<tool_call>add<arg_key>why</arg_key><arg_value>so</arg_value></tool_call>",
    ],
    "llama3": ['{"name": "add", "parameters": {"a": 1}}', '<|python_tag|>{"name":"look","parameters":{}}'],
    "mistral": ['[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}, "id": "000000001"}]', "[TOOL_CALLS]look{}"],
    "deepseek": [
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{"a": 1}\n```'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ],
    "deepseek_v4": [
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="why" string="true">so</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    ],
    "kimi": [
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>'
        "<|tool_calls_section_end|>"
    ],
    "minimax": ['<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n</invoke>\n</minimax:tool_call>'],
    "harmony": [
        '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":1}<|call|>',
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
        " to=functions.look<|channel|>commentary json<|message|>{}<|call|>",
    ],
}
"""Calls in each format, as its templates write them and otherwise."""


@define(eq=False)
class Script:
    """An engine that says what it is told, and remembers what it was asked."""

    renderer: TemplateRenderer
    says: list[int] = field(factory=list)
    asked: list[Request] = field(factory=list)
    capabilities: Capabilities = field(factory=Capabilities)

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        self.asked.append(request)
        ids = self.says
        ends = bool(ids) and ids[-1] in request.sampling.stop_token_ids
        yield Chunk(ids=ids, logprobs=[-1.0] * len(ids), finish_reason="stop" if ends else "length", weight_version=0)

    async def release(self, session: str) -> None:
        return None


def read_meaning(renderer: TemplateRenderer, prompt: str, text: str) -> Any:
    """What an answer says, whatever the spelling of its calls."""
    parser = renderer.parser(prompt, tools=TOOLS, parallel=True)
    for word in sorted(renderer.closers.values(), key=len, reverse=True):
        text = text.strip().removesuffix(word)
    pieces = [*parser.feed(text), *parser.finish()]
    texts = {kind: "".join(piece.text for piece in pieces if piece.kind == kind).split() for kind in ("content", "reasoning")}
    return texts, [(piece.name, json.loads(piece.text)) for piece in pieces if piece.kind == "tool_call"]


def find_closer(renderer: TemplateRenderer, text: str) -> str:
    """The token that closes an answer, if one does."""
    return next((word for word in renderer.closers.values() if text.endswith(word)), "")


def rendered(renderer: TemplateRenderer, request: ChatRequest) -> str:
    return renderer.render(request.messages, request.tools, generate=True, kwargs=request.template_kwargs)


@define(eq=False)
class Play:
    """One conversation with a model of a family."""

    renderer: TemplateRenderer
    seed: int
    rng: random.Random = field(init=False)
    engine: Script = field(init=False)
    recorder: EpisodeRecorder = field(init=False)
    messages: list[dict[str, Any]] = field(factory=list)
    requests: list[ChatRequest] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.engine = Script(self.renderer)
        spec = EpisodeSpec(
            episode_id="e", seed=1, sampling=Sampling(max_tokens=4000), max_model_len=100_000, trainable_targets=None
        )
        self.recorder = EpisodeRecorder(spec, self.engine, self.renderer, serial=0, tuner=None, forget=lambda: None)  # type: ignore[arg-type]

    async def ask(self, says: str, end: int | None, *, tools: bool = True, **body: Any) -> dict[str, Any] | None:
        """Play one call; None when the template refuses the conversation."""
        said = self.renderer.encode(says).tolist()
        # A format may end with a token that stops the model.
        cut = next((place + 1 for place, number in enumerate(said) if number in self.renderer.turn_ends), None)
        self.engine.says = said[:cut] if cut else said + ([] if end is None else [end])
        request = chat_request({"model": "m", "messages": self.messages, "tools": TOOLS if tools else [], **body})
        try:
            turn = self.recorder.begin(request, Caller("s", "agent", "agent"))
        except ApiError:
            return None
        self.requests.append(request)
        while not isinstance(happened := await turn.wait(), Done):
            pass
        assert isinstance(happened.result, Answer), happened.result
        return json.loads(json.dumps(happened.result.reply))

    def check(self) -> int:
        """Compare every prompt with its full rendering; return how many went on after an answer."""
        renderer, calls = self.renderer, self.recorder.calls
        texts = [rendered(renderer, request) for request in self.requests]
        bridged = 0
        for call, request, text in zip(calls, self.engine.asked, texts, strict=True):
            prompt = list(request.prompt_ids)
            assert stream_ids(calls, call.index)[: prompt_length(call)].tolist() == prompt
            if call.parent is None:
                assert prompt == renderer.encode(text).tolist()
                continue
            parent = calls[call.parent]
            recorded, before = stream_ids(calls, parent.index).tolist(), texts[parent.index]
            assert prompt[: call.kept] == recorded[: call.kept]
            assert text.startswith(before)
            added = renderer.decode(prompt[call.kept :])
            assert text.endswith(added)
            answer = text[len(before) : len(text) - len(added)]
            sampled = renderer.decode(recorded[prompt_length(parent) : call.kept])
            assert read_meaning(renderer, before, answer) == read_meaning(renderer, before, sampled)
            assert find_closer(renderer, answer) == find_closer(renderer, sampled)
            bridged += call.kept > prompt_length(parent)
        return bridged


def answers(renderer: TemplateRenderer) -> Sequence[str]:
    calls = ADD[renderer.tool_call_format]
    harmony, think = renderer.tool_call_format == "harmony", "<think>\nhm é\n</think>\n\n"
    final = "<|channel|>final<|message|>" if harmony else ""
    reasoned = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant" if harmony else think
    plain = [f"{final}{text}" for text in ("It is 3.", "", "  two\n\nlines 中文 🙂 \n", '{"x": 1}', "1 < 2 <tool")]
    return [
        *plain,
        *calls,
        *(reasoned + text for text in (*plain[:2], *calls)),
        *(["" if harmony else "First this.\n" + call for call in calls]),
        *(["" if harmony else call + "\n" + call for call in calls]),
        calls[0][: len(calls[0]) // 2],
        reasoned[: len(reasoned) // 2],
    ]


async def converse(play: Play, turns: int) -> None:
    rng, renderer = play.rng, play.renderer
    play.messages = rng.choice(
        [
            [{"role": "user", "content": "hello"}],
            [{"role": "user", "content": "multi\n\nline  é 中文 🙂 ", "name": "ann"}],
            [{"role": "system", "content": "be brief"}, {"role": "user", "content": " padded \n"}],
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
            [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
        ]
    )
    tools = rng.random() < 0.8
    kwargs = rng.choice([{}, {}, {"chat_template_kwargs": {"enable_thinking": False}}])
    for _ in range(turns):
        reply = await play.ask(rng.choice(answers(renderer)), rng.choice([*renderer.turn_ends, None]), tools=tools, **kwargs)
        if reply is None:
            return
        if rng.random() < 0.2:
            reply.pop("reasoning_content", None)
        for call in reply.get("tool_calls") or () if rng.random() < 0.3 else ():
            call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=1)
        play.messages = [*play.messages, reply]
        for call in reply.get("tool_calls") or ():
            content = rng.choice(["4", "", '{"r": "é\\n"}', "two\nlines"])
            play.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        if not reply.get("tool_calls") or rng.random() < 0.15:
            play.messages.append({"role": "user", "content": rng.choice(["next", "\nand 中 ", "qz"])})
        if rng.random() < 0.1:
            play.messages.insert(rng.randrange(1, len(play.messages)), {"role": "system", "content": "late"})


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1_000_000), turns=st.integers(2, 5))
def test_a_call_continues_as_a_full_rendering_or_branches(family: str, seed: int, turns: int) -> None:
    play = Play(renderer_of(family), seed)
    asyncio.run(converse(play, turns))
    play.check()


async def tool_loop(play: Play) -> None:
    """A question, a call, its result, an answer and another question, all as the template itself writes them."""
    call = {"id": "000000001", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "why": "é so"}'}}
    called: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call]}
    plain: dict[str, Any] = {"role": "assistant", "content": "3 é."}
    play.messages = [{"role": "user", "content": "hello"}]
    for reply in (called, plain, plain):
        known = chat_request({"model": "m", "messages": play.messages, "tools": TOOLS})
        before = rendered(play.renderer, known)
        if before.rstrip().endswith("<think>"):
            reply = {**reply, "reasoning_content": "hm"}
        with_reply = chat_request({"model": "m", "messages": [*play.messages, reply], "tools": TOOLS})
        text = play.renderer.render(with_reply.messages, with_reply.tools, generate=False, kwargs={})
        answer = text.removeprefix(before).rstrip("\n")
        says = answer if text.startswith(before) else reply["content"]
        said = await play.ask(says, play.renderer.tokenizer.eos_token_id)
        assert said is not None
        play.messages = [*play.messages, said]
        results = [{"role": "tool", "tool_call_id": made["id"], "content": "4"} for made in said.get("tool_calls") or ()]
        play.messages += results or [{"role": "user", "content": "next"}]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_as_the_template_writes_it_is_continued(family: str) -> None:
    play = Play(renderer_of(family), 0)
    asyncio.run(tool_loop(play))
    assert play.check() == FAMILIES[family].bridges


@pytest.mark.parametrize("said", ["<think>\nhm", "<think>hm", "<think>\nhm\n</think>", "<think>\nhm\n</think>\n\n"])
@pytest.mark.parametrize("end", [None, 2])
def test_reasoning_without_an_answer_is_closed_as_the_template_does(said: str, end: int | None) -> None:
    play = Play(renderer_of("nemotron_3_nano"), 0)
    play.messages = [{"role": "user", "content": "hello"}]
    for _ in range(2):
        reply = asyncio.run(play.ask(said, end))
        play.messages = [*play.messages, reply, {"role": "user", "content": "next"}]
    assert rendered(play.renderer, play.requests[1]) == play.renderer.decode(play.engine.asked[1].prompt_ids)
