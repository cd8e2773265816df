"""verl's client as an engine of ours, over a client that answers as verl's does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from astuner.contract.schema import Chunk, Request, Sampling
from astuner_verl.engine import VerlEngine

STOP = 7


class Client:
    """Answers every request with the same tokens."""

    def __init__(self, ids: list[int], stop_reason: str = "completed", version: int | None = 3) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer = SimpleNamespace(
            token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason=stop_reason, extra_fields={"global_steps": version}
        )

    async def generate(self, **asked: Any) -> Any:
        self.asked.append(asked)
        await asyncio.sleep(0.01)
        return self.answer


def ask(client: Client, *, seeds: bool = True, **sampling: Any) -> tuple[Chunk, VerlEngine]:
    engine = VerlEngine(client, max_model_len=64, seeds=seeds, version=0, serve=lambda version: None)
    request = Request(
        id="r", session="s", prompt_ids=(1, 2), sampling=Sampling(**{"max_tokens": 3, "stop_token_ids": (STOP,), **sampling})
    )

    async def play() -> Chunk:
        (chunk,) = [chunk async for chunk in engine.generate(request)]
        return chunk

    return asyncio.run(play()), engine


@pytest.mark.parametrize(
    ("ids", "said", "reason"),
    [
        ([4, STOP], "completed", "stop"),
        ([4, 5, 6], "completed", "length"),
        ([4, 5, STOP], "completed", "stop"),
        ([4], "aborted", "abort"),
    ],
)
def test_how_an_answer_ended(ids: list[int], said: str, reason: str) -> None:
    chunk, _ = ask(Client(ids, said))
    assert (list(chunk.ids), chunk.finish_reason, chunk.weight_version) == (ids, reason, 3)


def test_the_calls_of_a_session_go_to_one_server_with_the_whole_distribution() -> None:
    client = Client([4, STOP])
    ask(client, temperature=0.7, top_p=0.9, top_k=5, seed=2**64 - 1)
    (asked,) = client.asked
    assert asked["request_id"] == "s"
    assert asked["sampling_params"] == {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 5,
        "max_tokens": 3,
        "stop_token_ids": [STOP],
        "seed": 2**63 - 1,
        "logprobs": True,
    }


def test_without_seeds_none_is_sent() -> None:
    client = Client([4, STOP])
    ask(client, seeds=False, seed=5)
    assert "seed" not in client.asked[0]["sampling_params"]


def test_only_the_time_with_requests_under_way_counts() -> None:
    _, engine = ask(Client([4]))
    first = engine.busy_s
    assert 0 < first == engine.busy_s


def test_a_worker_asks_the_same_servers_with_the_weights_of_the_moment() -> None:
    client = Client([5, STOP], version=None)
    _, engine = ask(client)
    asyncio.run(engine.update_weights(None, 4))
    access = engine.give_access()
    request = Request(id="r", session="s", prompt_ids=(1,), sampling=Sampling(max_tokens=3))

    async def play() -> list[Chunk]:
        return [chunk async for chunk in access.open().generate(request)]

    assert [chunk.weight_version for chunk in asyncio.run(play())] == [4]
    assert (len(client.asked), access.same_machine) == (2, False)
    assert engine.give_access() == access
