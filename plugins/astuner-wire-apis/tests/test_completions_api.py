"""The completions API: raw prompts, as the real OpenAI SDK sends them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest
from tokenizers.normalizers import NFC

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.contract.token_streams import conversation, stream_ids
from astuner.model.gateway import Gateway
from astuner.model.rendering import TemplateRenderer
from astuner_devkit.tokenizer import tiny_tokenizer

PROMPT = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


async def ask(stage: Any, prompt: Any, **asked: Any) -> Any:
    return await stage.client().completions.create(model="any", prompt=prompt, **{"max_tokens": 100, **asked})


def kept(stage: Any, index: int) -> tuple[int | None, int]:
    return stage.recorder.calls[index].parent, stage.recorder.calls[index].kept


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_a_prompt_is_fed_as_it_is(serving: Any, renderer: Any, way: str) -> None:
    async with serving("three, été 🙂") as stage:
        answer = await getattr(stage, way)().completions.create(model="any", prompt="1 and 2 is ", max_tokens=100)
    call = stage.recorder.calls[0]
    choice = answer.choices[0]
    assert (answer.object, choice.text, choice.finish_reason) == ("text_completion", "three, été 🙂", "stop")
    assert call.prompt_ids.tolist() == renderer.encode("1 and 2 is ").tolist()
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(call.prompt_ids), len(call.output_ids))
    assert (call.untrained, call.messages) == (None, ({"role": "user", "content": "1 and 2 is "},))


@pytest.mark.asyncio
async def test_everything_that_is_said_is_text(serving: Any) -> None:
    said = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>'
    async with serving(said) as stage:
        answer = await ask(stage, "x")
    assert answer.choices[0].text == said


@pytest.mark.asyncio
async def test_a_stream_adds_up_and_ends_with_usage(serving: Any) -> None:
    async with serving("three, été 🙂") as stage:
        stream = await ask(stage, "x", stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == "three, été 🙂"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]][-2:] == [None, "stop"]
    assert chunks[-1].usage.completion_tokens == len(stage.recorder.calls[0].output_ids)


@pytest.mark.asyncio
async def test_sixteen_tokens_unless_more_are_asked_for(serving: Any) -> None:
    async with serving("word " * 100) as stage:
        answer = await stage.client().completions.create(model="any", prompt="x")
    assert answer.choices[0].finish_reason == "length"
    assert len(stage.recorder.calls[0].output_ids) == 16


@pytest.mark.asyncio
async def test_stop_strings_cut_the_text(serving: Any) -> None:
    async with serving("one END two") as stage:
        answer = await ask(stage, "x", stop="END")
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("one ", "stop")


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
async def test_logprobs_in_the_form_of_this_api(serving: Any, streamed: bool) -> None:
    async with serving("one two three four five six") as stage:
        if streamed:
            parts = [chunk.choices[0].logprobs async for chunk in await ask(stage, "x", logprobs=1, stream=True)]
            tokens = [token for part in parts if part for token in part.tokens]
            offsets = [offset for part in parts if part for offset in part.text_offset]
        else:
            shown = (await ask(stage, "x", logprobs=1)).choices[0].logprobs
            tokens, offsets = shown.tokens, shown.text_offset
            assert set(shown.token_logprobs) == {-0.5}
            assert len(shown.top_logprobs) == len(tokens)
    assert "".join(tokens) == "one two three four five six<|im_end|>"
    assert offsets == [len("".join(tokens[:number])) for number in range(len(tokens))]


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
async def test_each_prompt_has_choices_of_its_own(serving: Any, streamed: bool) -> None:
    async with serving(lambda prompt, request: f"after {prompt}: {request.sampling.seed}") as stage:
        answer = await ask(stage, ["one", "four words are longer"], n=2, stream=streamed)
        texts = dict.fromkeys(range(4), "")
        if streamed:
            async for chunk in answer:
                texts[chunk.choices[0].index] += chunk.choices[0].text
        else:
            texts = {choice.index: choice.text for choice in answer.choices}
            lengths = [len(stage.recorder.calls[number].prompt_ids) for number in (0, 2)]
            assert answer.usage.prompt_tokens == sum(lengths)
    assert [text.partition(":")[0] for text in texts.values()] == ["after one"] * 2 + ["after four words are longer"] * 2
    assert len(set(texts.values())) == 4
    assert [call.parent for call in stage.recorder.calls] == [None, 0, None, 2]


@pytest.mark.asyncio
async def test_prompts_over_the_budget_are_refused_before_any_begins(serving: Any) -> None:
    async with serving("yes", max_steps=3) as stage:
        with pytest.raises(openai.PermissionDeniedError):
            await ask(stage, ["a", "b"], n=2)
    assert stage.recorder.calls == ()


@pytest.mark.asyncio
async def test_one_prompt_without_room_refuses_all(serving: Any) -> None:
    async with serving("yes", max_model_len=30) as stage:
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(stage, ["a", "word " * 40])
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")
    assert stage.recorder.calls == ()


@pytest.mark.asyncio
async def test_ids_that_begin_with_a_recorded_stream_continue_it(serving: Any, renderer: Any) -> None:
    async with serving(["yes", "no"]) as stage:
        await ask(stage, renderer.encode(PROMPT).tolist())
        first = stream_ids(stage.recorder.calls, 0).tolist()
        await ask(stage, [*first, *renderer.encode("\nwhy?").tolist()])
    assert kept(stage, 1) == (0, len(first))
    assert stage.recorder.calls[1].messages == ({"role": "user", "content": "\nwhy?"},)


@pytest.mark.asyncio
async def test_ids_that_differ_in_one_sampled_token_begin_at_the_prompt(serving: Any, renderer: Any) -> None:
    async with serving(["yes", "no"]) as stage:
        await ask(stage, renderer.encode(PROMPT).tolist())
        first = stream_ids(stage.recorder.calls, 0).tolist()
        prompt = len(stage.recorder.calls[0].prompt_ids)
        first[prompt] += 1
        await ask(stage, first)
    assert kept(stage, 1) == (0, prompt)


@pytest.mark.asyncio
@pytest.mark.parametrize("ending", ["<|im_end|>\n<|im_start|>user\nwhy?<|im_end|>\n<|im_start|>assistant\n", "\nand then? "])
async def test_a_text_that_goes_on_from_an_answer_keeps_what_was_sampled(serving: Any, renderer: Any, ending: str) -> None:
    async with serving(["yes, 0.5 of it", "no", "so"]) as stage:
        text = PROMPT
        for _ in range(3):
            text += (await ask(stage, text)).choices[0].text + ending
        calls = stage.recorder.calls
    assert [call.parent for call in calls] == [None, 0, 1]
    # A text that goes on without the closing token leaves it behind.
    added = ending.removeprefix("<|im_end|>")
    left = 0 if added != ending else 1
    for call in calls[1:]:
        assert call.kept == len(stream_ids(calls, call.index - 1)) - left
        assert renderer.decode(call.prompt_ids) == added
    assert renderer.decode(stream_ids(calls, 2)) == text.removesuffix(ending) + "<|im_end|>"
    assert [message["content"] for message in conversation(calls, 2)] == [PROMPT, "yes, 0.5 of it", added, "no", added]


@pytest.mark.asyncio
async def test_sampled_ids_stay_where_the_tokenizer_would_write_the_text_in_others(serving: Any, renderer: Any) -> None:
    letters = [int(renderer.encode(letter)[0]) for letter in "hello"]
    assert renderer.encode("hello").tolist() != letters
    async with serving(engine=Says(letters)) as stage:
        answer = await ask(stage, PROMPT, max_tokens=5)
        await ask(stage, f"{PROMPT}{answer.choices[0].text} again", max_tokens=5)
    assert kept(stage, 1) == (0, len(stream_ids(stage.recorder.calls, 0)))
    assert stream_ids(stage.recorder.calls, 1)[len(renderer.encode(PROMPT)) :][:5].tolist() == letters


@pytest.mark.asyncio
async def test_a_text_that_only_begins_like_another_prompt_is_encoded_in_one_piece(serving: Any, renderer: Any) -> None:
    async with serving("yes") as stage:
        await ask(stage, "hel")
        await ask(stage, "hello")
        await ask(stage, "hello")
    assert [kept(stage, index) for index in range(3)] == [(None, 0), (None, 0), (1, len(renderer.encode("hello")))]


@pytest.mark.asyncio
async def test_ids_that_do_not_say_the_prompt_again_are_not_kept(serving: Any) -> None:
    composing = TemplateRenderer(tiny_tokenizer())
    composing.tokenizer.backend_tokenizer.normalizer = NFC()
    async with serving("yes") as stage:
        gateway = Gateway(stage.engine, composing)
        await gateway.start()
        recorder = gateway.open_episode(stage.recorder.spec)
        client = recorder.tuner.as_raw_openai_sdk_client()
        for prompt in ("e\u0301 ", "e\u0301 yes and", "\u00e9 ", "\u00e9 yes and"):
            await client.completions.create(model="any", prompt=prompt)
        await gateway.close()
    assert [call.parent for call in recorder.calls] == [None, None, None, 2]


@pytest.mark.asyncio
async def test_agents_do_not_share_their_streams(serving: Any) -> None:
    async with serving(["yes", "no"]) as stage:
        answer = await stage.client("one").completions.create(model="any", prompt="x")
        await stage.client("two").completions.create(model="any", prompt=f"x{answer.choices[0].text} y")
    assert kept(stage, 1) == (None, 0)


@pytest.mark.asyncio
async def test_a_frozen_agent_is_not_trained(serving: Any) -> None:
    async with serving("yes", trainable_targets=["planner"]) as stage:
        await ask(stage, "x")
    assert stage.recorder.calls[0].untrained == "frozen_agent"


@pytest.mark.asyncio
async def test_an_engine_that_speaks_chat_takes_no_raw_prompt(serving: Any) -> None:
    engine = Says([])
    engine.capabilities = Capabilities(token_ids=False, logprobs=False)
    async with serving(engine=engine) as stage:
        with pytest.raises(openai.BadRequestError, match="speaks chat only"):
            await ask(stage, "x")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": {"text": "x"}}, "prompt"),
        ({"prompt": [1, "x"]}, "prompt"),
        ({"prompt": ["x", 1]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [10**9]}, "prompt"),
        ({"prompt": [10**30]}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"prompt": ["x"] * 65, "n": 2}, "prompt"),
        ({"suffix": "x"}, "suffix"),
        ({"echo": True}, "echo"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stream_options": []}, "stream_options"),
    ],
)
async def test_a_bad_body_is_400_and_names_the_parameter(serving: Any, change: dict[str, Any], param: str) -> None:
    async with serving("yes") as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {api.api_key}"}) as client:
            response = await client.post(f"{api.base_url}/completions", content=json.dumps({"prompt": "hello", **change}))
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert stage.recorder.calls == ()


class Says:
    """Says the same ids, whatever it is asked."""

    def __init__(self, ids: list[int]) -> None:
        self.capabilities = Capabilities()
        self.ids = ids

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def generate(self, request: Request) -> Any:
        await asyncio.sleep(0)
        yield Chunk(ids=self.ids, logprobs=[-1.0] * len(self.ids), finish_reason="length")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("prompt", "said", "is_cut"),
    [("Q<think>\n", "hm, and so on", True), ("Q", "<think> hm, and", True), ("Use <think> first. Q", "hm, and so on", False)],
)
async def test_reasoning_that_a_limit_cuts_off_is_recorded_as_such(serving: Any, prompt: str, said: str, is_cut: bool) -> None:
    async with serving(said) as stage:
        await ask(stage, prompt, max_tokens=4)
    assert stage.recorder.calls[0].reply.get("cut_reasoning", False) is is_cut
