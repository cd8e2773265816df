"""Random conversations against an engine that remembers what it was asked and what it said.

Their agents crash, overflow the context, run into the limit of calls, hang up in the middle of an answer, ask for grammars, and
echo reasoning or drop it; engines fail.

`ASTUNER_SEQUENCES` is the number of conversations of the widest test; `benchmarks/tree.py --sequences` sets it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Literal

import numpy as np
import pytest
from attrs import define, evolve, field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner.contract.protocols import EpisodeIdentity, Tracked
from astuner.contract.schema import Call, Capabilities, Chunk, Request, Sampling
from astuner.contract.token_streams import conversation, prompt_length, stream_ids
from astuner.episodes.builtin.trackers.linear import LinearTracker
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.model.gateway import EpisodeRecorder, EpisodeSpec
from astuner.model.gateway.api_keys import Caller
from astuner.model.gateway.recording.choice_events import Answer, Done
from astuner.model.gateway.recording.messages import encode_meaning
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.wire_apis.chat_completions import chat_request
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.errors import ApiError

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("add", "look")]
IDENTITY = EpisodeIdentity(episode_id="e", task_id="t", repeat=0)
ADD = {"type": "function", "function": {"name": "add"}}
GRAMMARS: list[dict[str, Any]] = [
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}},
    {"tools": TOOLS, "tool_choice": "required"},
    {"tools": TOOLS, "tool_choice": ADD},
]
ENGINES = [
    Capabilities(),
    Capabilities(constrained=True),
    Capabilities(constrained=True, constraints=("json_object", "json_schema")),
]
REASONS = {"frozen_agent", "constrained", "aborted", "engine_error", "branch_not_linear", "history_answer", "over_sample_limit"}
TRACKERS = {found.name: found.load() for found in entry_points(group="astuner.trackers") if found.value.startswith("astuner.")}


@define(eq=False)
class Memory:
    """An engine that says random things, and knows each token by a logprob of its own."""

    renderer: TemplateRenderer
    asked: dict[int, Request] = field(factory=dict)
    said: dict[float, tuple[int, int, int]] = field(factory=dict)
    """Logprob → (call, place in its output, id)."""
    words: int = 0
    capabilities: Capabilities = field(factory=Capabilities)
    fails: float = 0.0
    """How often a part of an answer is the last one."""

    def word(self) -> str:
        self.words += 1
        return f"w{self.words}"

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        index = int(request.id.split("/")[-1].split("#")[0])
        self.asked[index] = request
        rng = random.Random(request.sampling.seed)
        ids = self.answer(rng)
        limit = request.sampling.max_tokens
        place = 0
        while place < limit:
            part = ids[place : min(limit, place + rng.randint(1, 6))]
            logprobs = [-float(len(self.said) + 1 + offset) for offset in range(len(part))]
            for offset, number in enumerate(part):
                self.said[logprobs[offset]] = (index, place + offset, number)
            place += len(part)
            await asyncio.sleep(0)
            if rng.random() < self.fails:
                raise RuntimeError("lost")
            if part and part[-1] in request.sampling.stop_token_ids:
                reason = "stop"
            elif place >= limit:
                reason = "length"
            else:
                reason = None
            yield Chunk(ids=part, logprobs=logprobs, finish_reason=reason, weight_version=index // 3)
            if reason is not None:
                return

    def answer(self, rng: random.Random) -> list[int]:
        parts = []
        if rng.random() < 0.3:
            parts.append(f"<think>\n{self.word()} {self.word()}\n</think>\n\n")
        for _ in range(rng.randint(0, 3)):
            parts.append(
                rng.choice(
                    [
                        lambda: f"{self.word()} and {self.word()} ",
                        lambda: f'\n<tool_call>\n{{"name": "add", "arguments": {{"b":"{self.word()}",  "a": 1}}}}\n</tool_call>',
                        lambda: '<tool_call>{"name": "look", "arguments": { }}</tool_call>',
                        lambda: f"<tool_call>{{{self.word()}</tool_call>",
                        lambda: f"中文 é 🙂 {self.word()}",
                        lambda: f" halt {self.word()}",
                    ]
                )()
            )
        ids = self.renderer.encode("".join(parts)).tolist()
        if rng.random() < 0.1:
            ids.insert(rng.randint(0, len(ids)), rng.randint(9, 200))
        # 2 ends a turn as the template does, 0 does it in another way, and without either the model is cut off at its limit.
        return ids + rng.choice([[2], [2], [2], [0], []]) + [40] * 400

    async def release(self, session: str) -> None:
        return None


@define(eq=False)
class Client:
    """An agent that holds a conversation, badly."""

    agent: str
    engine: Memory
    recorder: EpisodeRecorder
    rng: random.Random
    messages: list[dict[str, Any]] = field(factory=list)
    others: list[list[dict[str, Any]]] = field(factory=list)
    """Conversations that were left for another one."""
    requests: dict[int, ChatRequest] = field(factory=dict)

    async def ask(self, **extra: Any) -> list[Answer]:
        body = {"model": "m", "messages": self.messages}
        if self.agent != "toolless":
            body["tools"] = TOOLS if self.agent != "changer" or self.rng.random() < 0.7 else TOOLS[:1]
        body |= extra
        request = chat_request(json.loads(json.dumps(body)), self.recorder.read_messages)
        first = self.recorder.ledger.begun
        turn = self.recorder.begin(request, Caller("s", self.agent, self.agent))
        for index in range(first, first + request.n):
            self.requests[index] = request
        answers = []
        while len(answers) < request.n:
            happened = await turn.wait()
            if isinstance(happened, Done):
                if isinstance(happened.result, ApiError):
                    raise happened.result
                answers.append(happened.result)
        return answers

    async def step(self, move: str) -> None:
        rng = self.rng
        if not self.messages or move == "restart":
            self.messages = [{"role": "system", "content": self.engine.word()}] if rng.random() < 0.5 else []
            self.messages.append({"role": "user", "content": f"{self.engine.word()} hi"})
        elif move == "edit":
            place = rng.randrange(len(self.messages))
            self.messages[place] = {**self.messages[place], "content": self.engine.word()}
        elif move == "forget" and len(self.messages) > 2:
            del self.messages[rng.randrange(1, len(self.messages)) :]
            self.messages.append({"role": "user", "content": self.engine.word()})
        elif move == "fork":
            self.others.append(self.messages)
            self.messages = [
                *self.messages[: rng.randint(1, len(self.messages))],
                {"role": "user", "content": self.engine.word()},
            ]
        elif move == "return" and self.others:
            place = rng.randrange(len(self.others))
            self.messages, self.others[place] = self.others[place], self.messages
        extra: dict[str, Any] = {"stream": rng.random() < 0.5}
        if move == "short":
            extra["max_tokens"] = rng.randint(1, 8)
        elif move == "stop":
            extra["stop"] = rng.choice(["halt", [" and", "中"], "w1"])
        elif move == "several":
            extra["n"] = 2
        elif move == "single":
            extra["parallel_tool_calls"] = False
        elif move == "constrained":
            extra |= rng.choice(GRAMMARS)
        try:
            if move == "parallel":
                answers = [answer for found in await asyncio.gather(*(self.ask() for _ in range(3))) for answer in found]
            else:
                answers = await self.ask(**extra)
            if move == "retry":
                answers += await self.ask()
        except ApiError as error:
            if error.code not in EXPECTED:
                raise
            if error.code == "context_length_exceeded" and rng.random() < 0.7:
                self.messages = self.messages[-1:]
            return
        self.follow(rng.choice(answers).reply)

    def follow(self, reply: Any) -> None:
        """Send the answer back as SDKs do: with nulls, parts, arguments written anew, without reasoning."""
        rng, back = self.rng, json.loads(json.dumps(reply))
        if rng.random() < 0.5:
            back.update(refusal=None, audio=None, function_call=None, name="friday")
        if back.get("content") and rng.random() < 0.5:
            back["content"] = [{"type": "text", "text": back["content"]}]
        style = rng.choice(["kept", "kept", "dropped", "renamed", "inline"])
        thought = back.get("reasoning_content") if style == "kept" else back.pop("reasoning_content", None)
        if thought and style == "renamed":
            back["reasoning"] = thought
        elif thought and style == "inline":
            back["content"] = f"<think>\n{thought}\n</think>\n\n{text_of(back)}"
        for call in back.get("tool_calls") or ():
            style = rng.choice(["", "spaced", "sorted"])
            if style:
                arguments = json.loads(call["function"]["arguments"])
                call["function"]["arguments"] = json.dumps(arguments, sort_keys=style == "sorted")
        self.messages = [*self.messages, back]
        for call in back.get("tool_calls") or ():
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": self.engine.word()})
        if not back.get("tool_calls") or rng.random() < 0.3:
            self.messages.append({"role": "user", "content": f"{self.engine.word()} next"})


def text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


EXPECTED = {"context_length_exceeded", "max_steps_exceeded", "episode_closed", "engine_error", "aborted"}
"""Codes of errors that an agent may see here."""

MOVES = [
    "ask",
    "ask",
    "ask",
    "short",
    "stop",
    "stop",
    "several",
    "single",
    "constrained",
    "constrained",
    "parallel",
    "retry",
    "edit",
    "forget",
    "fork",
    "return",
    "restart",
]
AGENTS = ["planner", "frozen", "toolless", "changer"]


@frozen(kw_only=True)
class Surroundings:
    """What the agents live with."""

    capabilities: Capabilities = field(factory=Capabilities)
    constraints: Literal["ignore", "enforce"] = "ignore"
    fails: float = 0.0
    max_model_len: int = 100_000
    max_response_length: int | None = None
    max_steps: int | None = None
    crashes: bool = False
    """Whether the episode ends in the middle of calls, and agents go on after its end."""


UNHURT = Surroundings()


@frozen(kw_only=True, eq=False, repr=False)  # asyncio.run takes the text of its result
class Played:
    """An episode, and what was asked and said in it."""

    surroundings: Surroundings
    engine: Memory
    recorder: EpisodeRecorder
    requests: Mapping[int, ChatRequest]


async def play(
    renderer: TemplateRenderer, seed: int, moves: Sequence[tuple[str, str]], surroundings: Surroundings = UNHURT
) -> Played:
    engine = Memory(renderer, capabilities=surroundings.capabilities, fails=surroundings.fails)
    spec = EpisodeSpec(
        episode_id="e",
        seed=seed,
        sampling=Sampling(max_tokens=120),
        max_model_len=surroundings.max_model_len,
        max_response_length=surroundings.max_response_length,
        constraints=surroundings.constraints,
        trainable_targets=["planner", "toolless", "changer"],
        max_steps=surroundings.max_steps,
    )
    recorder = EpisodeRecorder(spec, engine, renderer, serial=0, tuner=None, forget=lambda: None)  # type: ignore[arg-type]
    requests: dict[int, ChatRequest] = {}
    clients = {agent: Client(agent, engine, recorder, random.Random(f"{seed}{agent}"), requests=requests) for agent in AGENTS}
    for agent, move in moves:
        if move == "crowd":
            await asyncio.gather(*(client.step("ask") for client in clients.values()))
        elif move == "leave":
            task = asyncio.create_task(clients[agent].step("ask"))
            for _ in range(3):
                await asyncio.sleep(0)
            running = list(recorder._turns)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for turn in running:
                await turn.cancel()
        else:
            await clients[agent].step(move)
    asking = [asyncio.create_task(client.step("ask")) for client in clients.values() if surroundings.crashes]
    for _ in range(seed % 6):
        await asyncio.sleep(0)
    await recorder.close()
    await asyncio.gather(*asking, *(client.step("several") for client in clients.values() if surroundings.crashes))
    return Played(surroundings=surroundings, engine=engine, recorder=recorder, requests=requests)


surroundings = st.builds(
    Surroundings,
    capabilities=st.sampled_from(ENGINES),
    constraints=st.sampled_from(["ignore", "enforce"]),
    fails=st.sampled_from([0.0, 0.0, 0.05]),
    max_model_len=st.sampled_from([100_000, 100_000, 100_000, 150, 400]),
    max_response_length=st.sampled_from([None, None, 200]),
    max_steps=st.sampled_from([None, None, None, 4, 12]),
    crashes=st.booleans(),
)
episodes = st.tuples(
    st.sampled_from(["chatml", "forgetful", "plain"]),
    st.integers(0, 10_000),
    st.lists(st.tuples(st.sampled_from(AGENTS), st.sampled_from([*MOVES, "crowd", "leave"])), min_size=1, max_size=14),
    surroundings,
)
thorough = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
widest = settings(thorough, max_examples=int(os.environ.get("ASTUNER_SEQUENCES", "200")))


def play_drawn(make_renderer: Callable[[str], TemplateRenderer], episode: Any) -> Played:
    template, seed, moves, drawn = episode
    return asyncio.run(play(make_renderer(template), seed, moves, drawn))


@widest
@given(episodes)
def test_no_sequence_of_calls_puts_a_token_under_a_wrong_prefix(
    make_renderer: Callable[[str], TemplateRenderer], episode: Any
) -> None:
    played = play_drawn(make_renderer, episode)
    calls = played.recorder.calls
    check_streams(played.engine, calls)
    check_prompts(played.engine, played.requests)
    check_messages(calls, played.requests)
    check_limits(played)
    check_reasons(played)
    for tracker in TRACKERS.values():
        check_tracked(played.engine, calls, tracker().samples(calls, IDENTITY))


def check_limits(played: Played) -> None:
    """No call passes a limit."""
    calls, limits = played.recorder.calls, played.surroundings
    steps = Counter(call.agent for call in calls if call.agent != "frozen")
    assert limits.max_steps is None or all(made <= limits.max_steps for made in steps.values())
    assert all(prompt_length(call) + len(call.output_ids) <= limits.max_model_len for call in calls)


def check_reasons(played: Played) -> None:
    """A call is left out for its agent, an enforced grammar or its end, and for nothing else."""
    enforces = played.surroundings.constraints == "enforce"
    for call in played.recorder.calls:
        wanted, frozen = played.requests[call.index].constraint, call.agent == "frozen"
        held = wanted is not None and played.engine.capabilities.constrains(wanted) and (frozen or enforces)
        asked = played.engine.asked.get(call.index)
        assert asked is None or asked.constraint == (wanted if held else None)
        if frozen:
            assert call.untrained == "frozen_agent"
        elif held:
            assert call.untrained == "constrained"
        elif call.finish_reason == "abort":
            assert call.untrained in ("aborted", "engine_error")
        else:
            assert call.untrained is None


def check_streams(engine: Memory, calls: Sequence[Call]) -> None:
    """Every recorded stream is what the engine saw and said."""
    assert [call.index for call in calls] == list(range(len(calls)))
    said: dict[int, list[int]] = {}
    for index, _place, number in engine.said.values():
        said.setdefault(index, []).append(number)
    for call in calls:
        stream = stream_ids(calls, call.index)
        if call.index in engine.asked:
            assert list(engine.asked[call.index].prompt_ids) == stream[: prompt_length(call)].tolist()
        assert said.get(call.index, [])[: len(call.output_ids)] == call.output_ids.tolist()


def outline(text: str) -> list[list[str]]:
    """What each turn says, without white space and the spelling of JSON, which are the model's own where it sampled them.

    Sorted within a turn, word by word and digit by digit: an answer may have said something after a tool call, and in a message
    that stands right behind what it had said before.
    """
    return [
        sorted(
            [
                *re.findall(r"^\w+|<\|\w+\|>|</?tool_call>|w|\d|next|hi|halt|and|[中文é🙂]", MARKED.sub(" ", turn)),
                *re.findall(r"</?tool_call>|w\d+|\b(?:next|hi|halt|and)\b|[中文é🙂]", " ".join(CALL.findall(turn))),
            ]
        )
        for turn in text.split("<|im_start|>")
    ]


CALL = re.compile(r"<tool_call>.*?</tool_call>", re.DOTALL)
MARKED = re.compile(rf"{CALL.pattern}|</?think>", re.DOTALL)


def check_prompts(engine: Memory, requests: Mapping[int, ChatRequest]) -> None:
    """Every prompt says what its messages say."""
    for index, asked in engine.asked.items():
        request = requests[index]
        text = engine.renderer.render(request.messages, request.tools, generate=True, kwargs={})
        assert outline(text) == outline(engine.renderer.decode(asked.prompt_ids))


def check_messages(calls: Sequence[Call], requests: Mapping[int, ChatRequest]) -> None:
    """Every record holds, with those before it, the messages that were asked."""
    for call in calls:
        asked = requests[call.index].messages
        assert [encode_meaning(message) for message in conversation(calls, call.index)] == [
            encode_meaning(message) for message in asked
        ]


def check_tracked(engine: Memory, calls: Sequence[Call], tracked: Tracked) -> None:
    """Every sampled token is trained once, under the prefix that it was sampled under, or counted under a reason."""
    known = {call.index: call for call in calls}
    trained: Counter[tuple[int, int]] = Counter()
    for sample in tracked.samples:
        assert sample.mask[-1]
        assert not sample.logprobs[~sample.mask].any()
        ends = {}
        for place in np.flatnonzero(sample.mask):
            index, offset, _ = engine.said[float(sample.logprobs[place])]
            assert place == prompt_length(known[index]) + offset
            trained[index, offset] += 1
            ends[index] = place + 1
        for index, end in ends.items():
            seen = [*engine.asked[index].prompt_ids, *known[index].output_ids.tolist()]
            assert sample.ids[:end].tolist() == seen[:end]
            assert known[index].untrained is None
            assert index in sample.calls
            assert sample.agent == known[index].agent
    assert all(count == 1 for count in trained.values())
    sampled = sum(len(call.output_ids) for call in calls)
    assert len(trained) + sum(tracked.untrained.values()) == sampled
    assert set(tracked.untrained) <= REASONS
    assert min(tracked.untrained.values(), default=1) > 0


@thorough
@given(episodes)
def test_timeline_trains_each_token_once_under_its_own_prefix(
    make_renderer: Callable[[str], TemplateRenderer], episode: Any
) -> None:
    played = play_drawn(make_renderer, episode)
    calls = played.recorder.calls
    tracked = TimelineTracker().samples(calls, IDENTITY)
    check_tracked(played.engine, calls, tracked)
    free = sum(len(call.output_ids) for call in calls if call.untrained is None)
    assert sum(sample.trained for sample in tracked.samples) == free


@thorough
@given(episodes)
def test_linear_trains_one_path_and_counts_the_rest(make_renderer: Callable[[str], TemplateRenderer], episode: Any) -> None:
    played = play_drawn(make_renderer, episode)
    tracked = LinearTracker().samples(played.recorder.calls, IDENTITY)
    assert len(tracked.samples) <= 1
    check_tracked(played.engine, played.recorder.calls, tracked)


@thorough
@given(episodes)
def test_the_same_episode_gives_the_same_transcript(make_renderer: Callable[[str], TemplateRenderer], episode: Any) -> None:
    template, seed, moves, drawn = episode
    kept = [(agent, move) for agent, move in moves if move != "leave"]
    same = template, seed, kept, evolve(drawn, crashes=False)
    first, again = (play_drawn(make_renderer, same).recorder.calls for _ in range(2))
    assert [call.reply for call in first] == [call.reply for call in again]
    assert [call.output_ids.tolist() for call in first] == [call.output_ids.tolist() for call in again]


@pytest.mark.parametrize("template", ["chatml", "plain"])
def test_an_unbroken_conversation_stores_each_token_once(make_renderer: Callable[[str], TemplateRenderer], template: str) -> None:
    calls = asyncio.run(play(make_renderer(template), 3, [("planner", "ask")] * 12)).recorder.calls
    stored = sum(len(call.prompt_ids) + len(call.output_ids) for call in calls)
    assert stored < 2 * len(stream_ids(calls, len(calls) - 1))
