"""The engine against a real server, by the contract that every engine is held to, and in what the contract does not ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from attrs import evolve
from transformers import AutoModelForCausalLM, AutoTokenizer

from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Chunk, Request, Sampling
from astuner.settings.config.model import Config, Model
from astuner.settings.config.rollout import Rollout
from astuner_devkit.contracts.engine import EngineContract
from astuner_devkit.run_infos import run_info
from astuner_vllm.engine import VllmEngine
from astuner_vllm.options import VllmOptions

T = TypeVar("T")
KEY = "ASTUNER_TEST_KEY"


@pytest.fixture
def served(tied_server: Any, models: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The shared server, with the weights that it was started with, now and after the test."""
    monkeypatch.setenv(KEY, tied_server.headers["authorization"].removeprefix("Bearer "))
    yield tied_server
    tied_server.post("/resume")
    tied_server.load_weights(models.path("tied-0"), "default")


def configured(models: Any, directory: Path) -> RunInfo:
    config = Config(model=Model(path=str(models.path("tied-0"))), rollout=Rollout(max_model_len=512))
    return evolve(run_info(directory), config=config)


class TestVllmEngine(EngineContract):
    component = "astuner_vllm.engine:VllmEngine"
    options: ClassVar[dict[str, Any]] = {}
    models: ClassVar[Any] = None

    @pytest.fixture(autouse=True)
    def _servers(self, request: pytest.FixtureRequest) -> None:
        server, models = request.getfixturevalue("served"), request.getfixturevalue("models")
        type(self).models = models
        type(self).options = {"url": server.url, "api_key_env": KEY}
        type(self).vocab_size = AutoModelForCausalLM.from_pretrained(models.path("tied-0")).config.vocab_size

    def run_info(self, directory: Path) -> RunInfo:
        return configured(self.models, directory)

    def new_weights(self) -> Any:
        return AutoModelForCausalLM.from_pretrained(self.models.path("tied-1"))


@pytest.fixture
def play(served: Any, models: Any, tmp_path: Path) -> Callable[..., Any]:
    """Plays with an engine over the shared server."""

    def play(scene: Callable[[VllmEngine], Awaitable[T]], **options: Any) -> T:
        async def run() -> T:
            settings = VllmOptions(url=(served.url,), api_key_env=KEY, **options)
            engine = VllmEngine.from_run(settings, configured(models, tmp_path))
            await engine.start()
            try:
                async with asyncio.timeout(900):
                    return await scene(engine)
            finally:
                await engine.close()

        return asyncio.run(run())

    return play


async def answer(engine: VllmEngine, *, session: str = "s", constraint: Any = None, **sampling: Any) -> list[Chunk]:
    settings = Sampling(**{"max_tokens": 24, "temperature": 0.0, **sampling})
    request = Request(id="r", session=session, prompt_ids=[5, 6, 7, 8], sampling=settings, constraint=constraint)
    return [chunk async for chunk in engine.generate(request)]


def ids_of(chunks: list[Chunk]) -> list[int]:
    return [number for chunk in chunks for number in chunk.ids]


def logprobs_of(chunks: list[Chunk]) -> list[float]:
    return [value for chunk in chunks for value in chunk.logprobs]


def test_a_module_is_served_as_transformers_computes_it(play: Any, models: Any) -> None:
    async def scene(engine: VllmEngine) -> list[Chunk]:
        await engine.update_weights(AutoModelForCausalLM.from_pretrained(models.path("tied-1")), 1)
        return await answer(engine)

    chunks = play(scene)
    expected = models.logits("tied-1", [5, 6, 7, 8], ids_of(chunks)).log_softmax(-1)
    assert expected.argmax(-1).tolist() == ids_of(chunks)
    assert expected.max(-1).values.tolist() == pytest.approx(logprobs_of(chunks), abs=1e-4)


def test_a_directory_is_served_too(play: Any, models: Any) -> None:
    async def scene(engine: VllmEngine) -> list[Chunk]:
        await engine.update_weights(models.path("tied-1"), 1)
        return await answer(engine)

    ids = ids_of(play(scene))
    assert models.logits("tied-1", [5, 6, 7, 8], ids).argmax(-1).tolist() == ids


def test_no_prefix_of_the_old_weights_is_used_again(play: Any, models: Any) -> None:
    async def scene(engine: VllmEngine) -> tuple[list[int], list[int]]:
        request = Request(id="r", session="s", prompt_ids=[5] * 200, sampling=Sampling(temperature=0.0, max_tokens=8))
        [*_, _] = [chunk async for chunk in engine.generate(request)]
        await engine.update_weights(models.path("tied-1"), 1)
        return ids_of([chunk async for chunk in engine.generate(request)]), [5] * 200

    ids, prompt = play(scene)
    assert models.logits("tied-1", prompt, ids).argmax(-1).tolist() == ids


@pytest.mark.parametrize(
    ("sync", "size", "ends"), [("keep", 12_000, "length"), ("wait", 400, "length"), ("abort", 60_000, "abort")]
)
def test_a_call_under_way_is_kept_waited_for_or_ended(play: Any, models: Any, sync: str, size: int, ends: str) -> None:
    async def scene(engine: VllmEngine) -> list[Chunk]:
        begun, chunks = asyncio.Event(), []

        async def read() -> None:
            request = Request(id="r", session="s", prompt_ids=[5, 6], sampling=Sampling(max_tokens=size, seed=3), stream=True)
            async for chunk in engine.generate(request):
                chunks.append(chunk)
                begun.set()

        reading = asyncio.ensure_future(read())
        await begun.wait()
        await engine.update_weights(models.path("tied-1"), 1)
        await reading
        return chunks

    chunks = play(scene, weight_sync=sync)
    versions = [chunk.weight_version for chunk in chunks if chunk.ids]
    assert ends == chunks[-1].finish_reason
    assert versions == sorted(versions)
    assert {"keep": {0, 1}, "wait": {0}, "abort": {0}}[sync] == set(versions)


def test_an_answer_is_held_to_a_schema(play: Any, models: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"], "additionalProperties": False}

    async def scene(engine: VllmEngine) -> list[int]:
        end = AutoTokenizer.from_pretrained(models.path("tied-0")).eos_token_id
        constraint = {"type": "json_schema", "schema": schema}
        return ids_of(await answer(engine, constraint=constraint, max_tokens=64, stop_token_ids=(end,), temperature=1.0))

    text = AutoTokenizer.from_pretrained(models.path("tied-0")).decode(play(scene), skip_special_tokens=True)
    assert json.loads(text)["n"] in (1, 22)


def test_the_most_likely_tokens_are_those_of_the_sampling_distribution(play: Any, models: Any) -> None:
    async def scene(engine: VllmEngine) -> list[Chunk]:
        return await answer(engine, max_tokens=1, temperature=0.5, top_logprobs=5, seed=4)

    [chunk] = play(scene)
    scaled = models.logits("tied-0", [5, 6, 7, 8], ids_of([chunk])).div(0.5).log_softmax(-1)[0]
    best = scaled.topk(5)
    assert best.indices.tolist() == list(chunk.top_logprobs[0])
    assert best.values.tolist() == pytest.approx(list(chunk.top_logprobs[0].values()), abs=1e-4)


def test_the_same_seed_gives_the_same_answer_and_another_one_another(play: Any) -> None:
    async def scene(engine: VllmEngine) -> list[list[int]]:
        return [ids_of(await answer(engine, temperature=1.0, seed=seed)) for seed in (2**40 + 1, 2**40 + 1, 2**41 + 1)]

    one, same, other = play(scene)
    assert one == same
    assert one != other
