from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import httpx
import pytest

from astuner.contract.schema import Chunk, Request
from astuner_vllm.client import ServerClient, names_this_machine
from astuner_vllm.failures import BadAnswer, Refused, ServerLost, ServerSilent

Ask = Callable[..., Request]
pytestmark = pytest.mark.asyncio


async def collect(url: str, request: Request, **settings: Any) -> list[Chunk]:
    client = ServerClient(url, **settings)
    await client.open()
    try:
        await client.meet()
        return [chunk async for chunk in client.generate(request)]
    finally:
        await client.close()


async def test_tokens_come_with_their_logprobs_and_the_end(fake: Any, ask: Ask) -> None:
    async with fake.vllm(fake.stream(fake.event([3]), fake.event([4, 9], finish="stop", spans=[("default", 0)]))) as server:
        chunks = await collect(server.url, ask())
    assert (
        [number for chunk in chunks for number in chunk.ids],
        [value for chunk in chunks for value in chunk.logprobs],
        chunks[-1].finish_reason,
    ) == ([3, 4, 9], [-1.0] * 3, "stop")


async def test_only_the_stop_tokens_of_the_request_end_an_answer(fake: Any, ask: Ask) -> None:
    async with fake.vllm() as server:
        await collect(server.url, ask(stop_token_ids=(7,), top_p=0.8, temperature=0.9), model="policy")
    sent = server.bodies[0]
    params = sent["sampling_params"]
    assert (sent["model"], sent["token_ids"], params["stop_token_ids"], params["ignore_eos"]) == ("policy", [5, 6], [7], True)
    assert (params["top_p"], params["temperature"], params["max_tokens"]) == (0.8, 0.9, 8)


async def test_seeds_that_differ_in_their_upper_half_differ_in_the_lower_one_too(fake: Any, ask: Ask) -> None:
    async with fake.vllm() as server:
        await collect(server.url, ask(seed=1))
        await collect(server.url, ask(seed=1 + 2**40))
    one, other = (body["sampling_params"]["seed"] % 2**32 for body in server.bodies)
    assert one != other


async def test_a_seed_fits_where_vllm_puts_it_on_a_gpu(fake: Any, ask: Ask) -> None:
    async with fake.vllm() as server:
        for seed in (2**63, 2**64 - 1):
            await collect(server.url, ask(seed=seed))
    assert all(0 <= body["sampling_params"]["seed"] < 2**63 for body in server.bodies)


async def test_another_salt_changes_the_seed(fake: Any, ask: Ask) -> None:
    async with fake.vllm() as server:
        await collect(server.url, ask(seed=1))
        await collect(server.url, ask(seed=1), salt=12345)
    one, other = (body["sampling_params"]["seed"] for body in server.bodies)
    assert one != other


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"type": "json_object"}, {"json_object": True}),
        ({"type": "json_schema", "schema": {"type": "array"}}, {"json": {"type": "array"}}),
    ],
)
async def test_a_constraint_becomes_structured_output(fake: Any, ask: Ask, constraint: Any, expected: Any) -> None:
    async with fake.vllm() as server:
        await collect(server.url, ask(constraint=constraint))
    params = server.bodies[0]["sampling_params"]
    assert (expected, False) == (params["structured_outputs"], params["ignore_eos"])


async def test_a_constraint_that_is_not_understood_is_an_error(fake: Any, ask: Ask) -> None:
    async with fake.vllm() as server:
        with pytest.raises(ValueError, match="cannot constrain an answer to 'tool_call'"):
            await collect(server.url, ask(constraint={"type": "tool_call", "tools": []}))


async def test_the_most_likely_tokens_come_by_id_without_the_sampled_one(fake: Any, ask: Ask) -> None:
    tops = [
        {"token_id": 3, "logprob": -4.0, "rank": 5},
        {"token_id": 8, "logprob": -0.1, "rank": 1},
        {"token_id": 9, "logprob": -9999.0, "rank": 2},
    ]
    content = [{"token_id": 3, "logprob": -4.0, "rank": 5, "top_logprobs": tops}]
    async with fake.vllm(fake.stream(fake.event([3], finish="length", logprobs={"content": content}))) as server:
        [chunk] = await collect(server.url, ask(top_logprobs=2))
    assert list(chunk.top_logprobs) == [{8: -0.1}]
    assert server.bodies[0]["sampling_params"]["logprobs"] == 3


async def test_an_answer_that_was_broken_off_ends_with_abort(fake: Any, ask: Ask) -> None:
    async with fake.vllm(fake.stream(fake.event([3]), fake.event(finish="abort", logprobs=None, token_ids=[]))) as server:
        chunks = await collect(server.url, ask())
    assert (chunks[-1].finish_reason, [number for chunk in chunks for number in chunk.ids]) == ("abort", [3])


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"data: {'ids': 3}\n\n", "sent invalid JSON"),
        (b'data: {"tokens": [3]}\n\n', "something else than tokens"),
        (b"data: 17\n\n", "something else than tokens"),
    ],
)
async def test_garbage_is_named(fake: Any, ask: Ask, broken: bytes, reason: str) -> None:
    async with fake.vllm(fake.stream(broken)) as server:
        with pytest.raises(BadAnswer, match=reason):
            await collect(server.url, ask())


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"token_ids": [3, 4]}, "2 ids with 1 log-probabilities"),
        ({"token_ids": [400]}, "the id 400"),
        ({"token_ids": [-1]}, "the id -1"),
        ({"token_ids": ["3"]}, "the id '3'"),
        ({"token_ids": 3}, "something else|ids with"),
        ({"finish_reason": "tired"}, "ended an answer with 'tired'"),
        ({"logprobs": {"content": [{"token_id": 4, "logprob": -1.0}]}}, "log-probability of 4 for the id 3"),
        ({"logprobs": {"content": [{"token_id": 3, "logprob": float("nan")}]}}, "sent nan as the log-probability"),
        ({"logprobs": {"content": [{"token_id": 3, "logprob": -9999.0}]}}, "sent -9999.0 as the log-probability"),
        ({"logprobs": {"content": [{"token_id": 3, "logprob": 0.7}]}}, "sent 0.7 as the log-probability"),
        ({"logprobs": {"content": [{}]}}, "cannot be read"),
    ],
)
async def test_tokens_that_cannot_be_are_not_believed(fake: Any, ask: Ask, more: Any, reason: str) -> None:
    async with fake.vllm(fake.stream(fake.event([3], **{"finish": "length", **more}))) as server:
        with pytest.raises(BadAnswer, match=reason):
            await collect(server.url, ask(), vocab_size=400)


async def test_a_page_in_place_of_a_stream_is_garbage(fake: Any, ask: Ask) -> None:
    async with fake.vllm(fake.page(b"<html>login</html>")) as server:
        with pytest.raises(BadAnswer, match=r"text/html.*login"):
            await collect(server.url, ask())


async def test_an_event_without_end_is_garbage(fake: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner_vllm.generate_stream.LONGEST_EVENT", 1000)
    async with fake.vllm(fake.stream(b"data: " + b"x" * 2000, done=False)) as server:
        with pytest.raises(BadAnswer, match="without the end of an event"):
            await collect(server.url, ask())


async def test_tokens_behind_the_end_are_garbage(fake: Any, ask: Ask) -> None:
    async with fake.vllm(fake.stream(fake.event([3], finish="stop"), fake.event([4]))) as server:
        with pytest.raises(BadAnswer, match="went on after the end"):
            await collect(server.url, ask())


async def test_an_error_of_the_server_is_given_with_its_words(fake: Any, ask: Ask) -> None:
    body = json.dumps({"error": {"message": "max_tokens must be at least 1", "code": 400}}).encode()
    async with fake.vllm(fake.page(body, status="400 Bad Request", kind="application/json")) as server:
        with pytest.raises(Refused, match="answered 400: max_tokens must be at least 1"):
            await collect(server.url, ask())


PAUSED = json.dumps({"error": {"message": "Generation is paused. Please retry after it resumes.", "code": 503}}).encode()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_server_that_is_paused_is_asked_again(
    fake: Any, ask: Ask, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astuner_vllm.client.PAUSED_S", 0.01)
    refused = (
        fake.stream(b"data: " + PAUSED + b"\n\n")
        if streamed
        else fake.page(PAUSED, status="503 Service Unavailable", kind="application/json")
    )
    async with fake.vllm(refused, refused, fake.stream(fake.event([3], finish="stop"))) as server:
        found = await collect(server.url, ask())
    assert [list(chunk.ids) for chunk in found] == [[3]]
    assert len(server.bodies) == 3


async def test_a_server_that_stays_paused_is_an_error_and_so_is_another_503(
    fake: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astuner_vllm.client.LONG_S", 0.0)
    for body in (PAUSED, b'{"error": {"message": "EngineCore died", "code": 503}}'):
        async with fake.vllm(fake.page(body, status="503 Service Unavailable", kind="application/json")) as server:
            with pytest.raises(Refused, match="answered 503"):
                await collect(server.url, ask())
        assert len(server.bodies) == 1


async def test_an_error_in_the_middle_of_a_stream_is_given_with_its_words(fake: Any, ask: Ask) -> None:
    said = b'data: {"error": {"message": "EngineCore died", "code": 500}}\n\n'
    async with fake.vllm(fake.stream(fake.event([3]), said)) as server:
        with pytest.raises(Refused, match="EngineCore died"):
            await collect(server.url, ask())


@pytest.mark.parametrize("sent", [0, 1])
async def test_a_connection_that_breaks_is_a_lost_server(fake: Any, ask: Ask, sent: int) -> None:
    async with fake.vllm(fake.reset(*[fake.event([3])] * sent)) as server:
        with pytest.raises(ServerLost):
            await collect(server.url, ask())


async def test_an_end_without_a_reason_is_a_lost_server(fake: Any, ask: Ask) -> None:
    async with fake.vllm(fake.stream(fake.event([3]), done=False)) as server:
        with pytest.raises(ServerLost, match="before the end of an answer"):
            await collect(server.url, ask())


async def test_a_server_that_is_not_there_is_lost(ask: Ask) -> None:
    with pytest.raises(ServerLost):
        await collect("http://127.0.0.1:1", ask())


@pytest.mark.parametrize("sent", [0, 1])
async def test_a_server_that_says_nothing_is_given_up(fake: Any, ask: Ask, sent: int) -> None:
    async with fake.vllm(fake.hang(*[fake.event([3])] * sent)) as server, asyncio.timeout(20):
        with pytest.raises(ServerSilent, match=r"said nothing for 0\.2 s"):
            await collect(server.url, ask(), silence_s=0.2)


async def test_a_request_waits_as_long_as_others_are_answered(fake: Any, ask: Ask) -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for _ in range(45):
            await asyncio.sleep(0.1)
            writer.write(fake.event([3]))
        writer.write(fake.event([3], finish="length"))

    async def late(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(4)
        await fake.stream(fake.event([4], finish="length"))(writer)

    async with fake.vllm(slow, late) as server, asyncio.timeout(20):
        client = ServerClient(server.url, silence_s=3)
        await client.open()
        await client.meet()

        async def answer() -> list[int]:
            return [number async for chunk in client.generate(ask()) for number in chunk.ids]

        first = asyncio.ensure_future(answer())
        await asyncio.sleep(0.05)
        assert [await one for one in (first, asyncio.ensure_future(answer()))] == [[3] * 46, [4]]
        await client.close()


async def test_leaving_ends_the_request_in_the_server(fake: Any, ask: Ask) -> None:
    async with fake.vllm(fake.hang(fake.event([3]))) as server, asyncio.timeout(20):
        client = ServerClient(server.url)
        await client.open()
        async with aclosing(client.generate(ask())) as stream:
            assert (await anext(stream)).ids == [3]
        await server.gone.wait()
        await client.close()


async def test_closing_the_client_leaves_no_reader_waiting(fake: Any, ask: Ask) -> None:
    async with fake.vllm(fake.hang(fake.event([3]))) as server, asyncio.timeout(20):
        client = ServerClient(server.url)
        await client.open()
        stream = client.generate(ask())
        await anext(stream)
        rest = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ServerLost, match="was closed"):
            await rest


async def test_tokens_are_held_back_while_it_is_open_which_weights_sampled_them(fake: Any, ask: Ask) -> None:
    go_on = asyncio.Event()

    async with fake.vllm() as server, asyncio.timeout(20):
        client = ServerClient(server.url)
        await client.open()
        await client.meet()
        label = client.versions.assign_label(4)

        async def stream_spans(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            writer.write(fake.event([1, 2]))
            await go_on.wait()
            writer.write(fake.event([3]))
            await asyncio.sleep(0.1)
            writer.write(fake.event([4, 5], finish="length", spans=[("default", 0), (label, 3)]))

        server.answers = [stream_spans]
        stream = client.generate(ask())
        first = await anext(stream)
        await client.pause("keep")
        go_on.set()
        rest = [chunk async for chunk in stream]
        await client.close()
    assert [(list(chunk.ids), chunk.weight_version) for chunk in (first, *rest)] == [([1, 2], 0), ([3], 0), ([4, 5], 4)]


async def test_a_request_sent_in_the_middle_of_an_exchange_is_labelled_at_its_end(fake: Any, ask: Ask) -> None:
    async with fake.vllm() as server, asyncio.timeout(20):
        client = ServerClient(server.url)
        await client.open()
        await client.meet()
        await client.pause("wait")
        label = client.versions.assign_label(1)

        async def in_two(writer: asyncio.StreamWriter) -> None:
            await fake.stream(fake.event([1]), done=False)(writer)
            await asyncio.sleep(0.1)
            writer.write(fake.event([2], finish="length", spans=[(label, 0)]))

        server.answers = [in_two]
        assert {1} == {chunk.weight_version async for chunk in client.generate(ask())}
        await client.close()


async def test_weights_of_another_run_are_noticed(fake: Any, ask: Ask) -> None:
    async with fake.vllm(fake.stream(fake.event([1], finish="length", spans=[("somebody.7", 0)]))) as server:
        with pytest.raises(BadAnswer, match=r"'somebody\.7'.*another run"):
            await collect(server.url, ask())


async def test_new_weights_are_paused_for_loaded_labelled_and_no_prefix_is_kept(fake: Any, tmp_path: Any) -> None:
    async with fake.vllm() as server:
        client = ServerClient(server.url)
        await client.open()
        await client.pause("keep")
        await client.load_weights(tmp_path, 3)
        await client.resume()
        await client.close()
    assert server.paths == [
        "/pause?mode=keep&clear_cache=false",
        "/start_weight_update",
        "/update_weights",
        "/finish_weight_update",
        "/reset_prefix_cache?reset_running_requests=true",
        "/resume",
    ]
    assert client.versions.version == 3


async def test_an_update_that_somebody_left_unfinished_is_finished_first(fake: Any, tmp_path: Any) -> None:
    refusals = [fake.page(b'{"error": {"message": "already active"}}', status="500 Error", kind="application/json")]

    async def once(writer: asyncio.StreamWriter) -> None:
        await (refusals.pop() if refusals else fake.page(b"{}", kind="application/json"))(writer)

    async with fake.vllm() as server:
        server.replies["/start_weight_update"] = once
        client = ServerClient(server.url)
        await client.open()
        await client.load_weights(tmp_path, 1)
        await client.close()
    assert server.paths[:3] == ["/start_weight_update", "/finish_weight_update", "/start_weight_update"]


async def test_a_prefix_cache_that_stays_is_an_error(fake: Any, tmp_path: Any) -> None:
    async with fake.vllm() as server:
        server.replies["/reset_prefix_cache"] = fake.page(b'{"success": false}', kind="application/json")
        client = ServerClient(server.url)
        await client.open()
        with pytest.raises(Refused, match="keys and values of the old weights"):
            await client.load_weights(tmp_path, 1)
        await client.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://127.0.0.1:1", True), ("http://localhost:1", True), ("http://[::1]:1", True), ("http://gpu-3:8000", False)],
)
async def test_loopback_is_told_by_the_address(url: str, expected: bool) -> None:
    assert names_this_machine(url) is expected


@pytest.mark.parametrize(("url", "expected"), [("http://127.0.0.1:9", 60.0), ("http://[::1]:9", 60.0), ("http://gpu-7:9", 10.0)])
async def test_only_a_server_on_this_machine_has_a_minute_to_connect(
    url: str, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        limits.append(request.extensions["timeout"]["connect"])
        return httpx.Response(200, json={"weight_version": "default"})

    monkeypatch.setattr(httpx, "AsyncClient", partial(httpx.AsyncClient, transport=httpx.MockTransport(answer)))
    client = ServerClient(url)
    await client.open()
    try:
        assert await client.get_weight_label() == "default"
    finally:
        await client.close()
    assert limits == [expected]
