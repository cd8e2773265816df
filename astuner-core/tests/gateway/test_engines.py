"""The two engines that need no weights."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai
import pytest
from attrs import define, field

from astuner.contract.errors import DataError, PluginError
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Request, Sampling
from astuner.episodes.builtin.engines.openai_engine import OpenAIEngine
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine, read_script
from astuner.model.rendering.errors import ApiError
from astuner.settings.config.model import Config, Model
from astuner_devkit.run_infos import run_info
from astuner_devkit.scripted_api import Reply, scripted_api

USER = [{"role": "user", "content": "hello"}]


async def generate_text(
    engine: ScriptedEngine, prompt: str, *, session: str = "s", max_tokens: int = 50
) -> tuple[str, str | None]:
    tokenizer = engine._tokenizer
    sampling = Sampling(max_tokens=max_tokens, stop_token_ids=(2,))
    request = Request(id="1", session=session, prompt_ids=tokenizer.encode(prompt), sampling=sampling)
    chunks = [chunk async for chunk in engine.generate(request)]
    assert all(len(chunk.ids) == len(chunk.logprobs) for chunk in chunks)
    return tokenizer.decode([number for chunk in chunks for number in chunk.ids]), chunks[-1].finish_reason


@pytest.mark.asyncio
async def test_replies_follow_the_calls_of_a_conversation(renderer: Any) -> None:
    engine = ScriptedEngine(ScriptedEngine.Options(replies=("one", "two")), tokenizer=renderer.tokenizer)
    texts = [(await generate_text(engine, "x", session=session))[0] for session in ("a", "a", "b", "a")]
    assert texts == ["one<|im_end|>", "two<|im_end|>", "one<|im_end|>", "two<|im_end|>"]
    await engine.release("a")
    assert (await generate_text(engine, "x", session="a"))[0] == "one<|im_end|>"


@pytest.mark.asyncio
async def test_the_first_line_that_matches_the_last_message_answers(renderer: Any, tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"match": "sum of \\\\d", "reply": "seven"}\n\n{"reply": "what?"}\n')
    engine = ScriptedEngine(tokenizer=renderer.tokenizer, script=read_script(path))
    earlier = "<|im_start|>user\nthe sum of 3<|im_end|>\n"
    assert (await generate_text(engine, f"{earlier}<|im_start|>assistant\n"))[0] == "seven<|im_end|>"
    assert (await generate_text(engine, f"{earlier}<|im_start|>user\nthanks<|im_end|>\n<|im_start|>assistant\n"))[
        0
    ] == "what?<|im_end|>"


@pytest.mark.asyncio
async def test_a_reply_is_cut_at_its_limit(renderer: Any) -> None:
    engine = ScriptedEngine(tokenizer=renderer.tokenizer, reply=lambda prompt, request: "a b c d e f")
    text, reason = await generate_text(engine, "x", max_tokens=3)
    assert reason == "length"
    assert not text.endswith("<|im_end|>")


def test_a_bad_script_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"reply": "fine"}\n{"match": "("}\n')
    with pytest.raises(DataError, match=r"script.jsonl:2: expected"):
        read_script(path)


def run_of(directory: Path, model: Path) -> RunInfo:
    return run_info(directory, config=Config(model=Model(path=str(model))))


@pytest.mark.asyncio
async def test_a_run_brings_the_tokenizer_and_the_script(renderer: Any, tmp_path: Path) -> None:
    renderer.tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "script.jsonl").write_text('{"reply": "seven"}\n')
    options = ScriptedEngine.Options(script="script.jsonl")
    engine = ScriptedEngine.from_run(options, run_of(tmp_path, tmp_path / "model"))
    await engine.start()
    assert (await generate_text(engine, "x"))[0] == "seven<|im_end|>"


def test_an_engine_with_nothing_to_say_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="Set 'replies', or 'script'"):
        ScriptedEngine.from_run(ScriptedEngine.Options(), run_of(tmp_path, tmp_path))


@pytest.mark.asyncio
async def test_a_script_takes_no_weights(renderer: Any) -> None:
    engine = ScriptedEngine(tokenizer=renderer.tokenizer)
    assert not engine.capabilities.weight_updates
    with pytest.raises(PluginError, match="no weights"):
        await engine.update_weights(None, 1)


@pytest.mark.asyncio
async def test_a_paused_engine_waits(renderer: Any) -> None:
    engine = ScriptedEngine(ScriptedEngine.Options(replies=("one",)), tokenizer=renderer.tokenizer)
    await engine.pause()
    task = asyncio.create_task(generate_text(engine, "x"))
    await asyncio.sleep(0.01)
    assert not task.done()
    await engine.resume()
    assert (await task)[1] == "stop"


@define(eq=False)
class Remote:
    """A real server that answers as it is told."""

    answers: list[tuple[int, Any]]
    bodies: list[Any] = field(factory=list)
    keys: list[str | None] = field(factory=list)
    url: str = ""


@pytest.fixture
def remote() -> Iterator[Remote]:
    told = Remote([])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            told.keys.append(self.headers.get("authorization"))
            status, body = told.answers.pop(0) if len(told.answers) > 1 else told.answers[0]
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


class Impatient(OpenAIEngine):
    first_pause_s = 0.0


def engine_for(remote: Remote, **options: Any) -> OpenAIEngine:
    return Impatient(OpenAIEngine.Options(**{"base_url": remote.url, "model": "big", **options}))


def answer(message: Any, reason: str = "stop") -> tuple[int, Any]:
    return 200, {
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }


ADDING = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [ADDING]}


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_a_remote_answer_is_served_and_left_untrained(serving: Any, remote: Remote, stream: bool) -> None:
    remote.answers = [answer(CALLING, "tool_calls")]
    async with serving(engine=engine_for(remote)) as stage:
        tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
        found = await stage.client().chat.completions.create(
            model="any", messages=USER, tools=tools, stream=stream, extra_body={"odd": 1}
        )
        if stream:
            names = [call.function.name async for chunk in found for call in chunk.choices[0].delta.tool_calls or ()]
        else:
            names = [call.function.name for call in found.choices[0].message.tool_calls]
    call = stage.recorder.calls[0]
    assert names == ["add"]
    assert (call.untrained, len(call.output_ids), call.reply["tool_calls"][0]["id"]) == ("no_token_ids", 0, "c1")
    assert remote.bodies[0]["model"] == "big"
    assert "stream" not in remote.bodies[0]
    assert "odd" not in remote.bodies[0]


@pytest.mark.asyncio
async def test_a_remote_answer_of_nothing_is_an_empty_text(serving: Any, remote: Remote) -> None:
    remote.answers = [answer({"role": "assistant", "content": None})]
    async with serving(engine=engine_for(remote)) as stage:
        found = await stage.client().chat.completions.create(model="any", messages=USER)
    assert found.choices[0].message.content == stage.recorder.calls[0].reply["content"] == ""


@pytest.mark.asyncio
async def test_the_remote_key_comes_from_the_environment(serving: Any, remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    remote.answers = [answer({"role": "assistant", "content": "hi"})]
    async with serving(engine=engine_for(remote, api_key_env="MY_KEY")) as stage:
        found = await stage.client().chat.completions.create(model="any", messages=USER, n=2)
    assert [choice.message.content for choice in found.choices] == ["hi", "hi"]
    assert remote.keys == ["Bearer secret"] * 2
    assert len(stage.recorder.calls) == 2


@pytest.mark.asyncio
async def test_a_busy_remote_is_asked_again(serving: Any, remote: Remote) -> None:
    remote.answers = [(429, {"error": {"message": "slow down"}}), (500, {}), answer({"role": "assistant", "content": "hi"})]
    async with serving(engine=engine_for(remote)) as stage:
        found = await stage.client().chat.completions.create(model="any", messages=USER)
    assert found.choices[0].message.content == "hi"
    assert len(remote.bodies) == 3


@pytest.mark.asyncio
async def test_retries_end(serving: Any, remote: Remote) -> None:
    remote.answers = [(500, {"error": "broken"})]
    async with serving(engine=engine_for(remote, max_retries=2)) as stage:
        with pytest.raises(openai.InternalServerError, match="answered 500: broken"):
            await stage.client().chat.completions.create(model="any", messages=USER)
    assert len(remote.bodies) == 3
    assert stage.recorder.calls[0].finish_reason == "abort"


@pytest.mark.asyncio
async def test_what_the_remote_refuses_is_refused(serving: Any, remote: Remote) -> None:
    remote.answers = [(400, {"error": {"message": "too long", "code": "context_length_exceeded"}})]
    async with serving(engine=engine_for(remote)) as stage:
        with pytest.raises(openai.BadRequestError) as caught:
            await stage.client().chat.completions.create(model="any", messages=USER)
    assert caught.value.code == "context_length_exceeded"
    assert stage.recorder.failures.reason == "context_full"
    assert len(remote.bodies) == 1


@pytest.mark.asyncio
async def test_a_wrong_key_names_the_variable(serving: Any, remote: Remote) -> None:
    remote.answers = [(401, {"error": {"message": "no"}})]
    async with serving(engine=engine_for(remote, api_key_env="MY_KEY")) as stage:
        with pytest.raises(openai.InternalServerError, match="environment variable MY_KEY"):
            await stage.client().chat.completions.create(model="any", messages=USER)
    assert len(remote.bodies) == 1


@pytest.mark.asyncio
async def test_nothing_there_is_said(serving: Any) -> None:
    engine = Impatient(OpenAIEngine.Options(base_url="http://127.0.0.1:9", model="m", max_retries=1))
    async with serving(engine=engine) as stage:
        with pytest.raises(openai.InternalServerError, match="could not be reached"):
            await stage.client().chat.completions.create(model="any", messages=USER)


async def ask_engine(script: Callable[[Any, int], Reply | str], **options: Any) -> Mapping[str, Any]:
    with scripted_api(script) as api:
        engine = Impatient(OpenAIEngine.Options(base_url=api.url, model="m", **options))
        await engine.start()
        try:
            return await engine.chat({"messages": USER})
        finally:
            await engine.close()


@pytest.mark.asyncio
async def test_an_answer_that_unpacks_to_far_too_much_is_given_up() -> None:
    bomb = Reply(200, gzip.compress(b" " * (160 << 20)), {"content-encoding": "gzip"})
    with pytest.raises(ApiError, match="the answer is larger than 32 MiB"):
        await ask_engine(lambda *_: bomb, max_retries=0)


@pytest.mark.asyncio
async def test_half_an_emoji_of_a_remote_model_becomes_a_character() -> None:
    assert (await ask_engine(lambda *_: "\ud83d"))["choices"][0]["message"]["content"] == "\ufffd"


@pytest.mark.asyncio
async def test_a_wait_that_a_remote_model_asks_for_is_no_retry() -> None:
    answer = await ask_engine(lambda _, number: "4" if number > 3 else Reply(429, {}, {"retry-after": "0.01"}), max_retries=0)
    assert answer["choices"][0]["message"]["content"] == "4"
