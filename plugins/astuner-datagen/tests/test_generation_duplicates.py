from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from astuner.contract.errors import ConfigError, DataError
from astuner.settings.plugins.options import build_options
from astuner.shared.clients.llm_budget import Budget
from astuner.shared.clients.llm_endpoint import Endpoint, find_endpoint
from astuner_datagen.duplicates import find_repeats
from astuner_datagen.reader import DataGenerationReader
from astuner_datagen.vectors import Unembedded, open_embedding
from astuner_devkit.scripted_api import ScriptedApi, scripted_api
from astuner_judges.embedding import NgramEmbedding

QUESTIONS = (
    "In which year was the harbour of Velmar opened?",
    "How many lighthouses stand on the coast of Orsk?",
    "In which year was the harbour of Velmar opened ?",
    "In what year was the harbour of Velmar opened?",
)


def found(
    texts: Sequence[str], taken: Mapping[str, str] | None = None, threshold: float = 0.8, embedding: object = None
) -> list[str | None]:
    return asyncio.run(find_repeats(texts, taken or {}, embedding, threshold))  # type: ignore[arg-type]


def test_the_later_of_two_alike_is_dropped() -> None:
    assert found(QUESTIONS, embedding=NgramEmbedding()) == [None, None, "duplicate", "duplicate"]


def test_without_an_embedding_only_the_same_words_count() -> None:
    assert found(QUESTIONS) == [None, None, "duplicate", None]


def test_a_threshold_of_one_keeps_what_differs_in_a_word() -> None:
    assert found(QUESTIONS, threshold=1.0, embedding=NgramEmbedding()) == [None, None, "duplicate", None]


def test_what_is_like_something_taken_is_named_after_it() -> None:
    taken = {"In which year was the harbour at Velmar opened?": "duplicate_of_validation"}
    assert found(QUESTIONS[:2], taken, embedding=NgramEmbedding()) == ["duplicate_of_validation", None]


def test_nothing_is_compared_with_one_that_was_dropped() -> None:
    # b is dropped for a; c is like b alone, and so it stays.
    class Line:
        async def vectors(self, texts: Sequence[str]) -> object:
            import numpy as np

            angles = np.array([{"a": 0.0, "b": 0.5, "c": 1.0}[text] for text in texts])
            return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    assert found(["a", "b", "c"], embedding=Line(), threshold=0.8) == [None, "duplicate", None]


def options(**params: object):
    section = {"task_num": 1, "query_reader": {}, "deduplication_filter": {"params": params}}
    return build_options(DataGenerationReader, section, key="section").deduplication_filter


def embedded(api: ScriptedApi, texts: Sequence[str], home: Path, db_path: str | None = "vectors.db") -> None:
    async def ask() -> None:
        with open_embedding(options(model="embedder", db_path=db_path, batch_size=2), home, home) as embedding:
            assert embedding is not None
            assert (await embedding.vectors(texts)).shape[0] == len(texts)

    asyncio.run(ask())


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch):
    with scripted_api() as served:
        served.embed = lambda text: [float(len(text)), 1.0]
        for name, value in served.environ.items():
            monkeypatch.setenv(name, value)
        yield served


def test_a_vector_of_the_api_is_paid_for_once(api: ScriptedApi, tmp_path: Path) -> None:
    embedded(api, ["a", "bb", "ccc"], tmp_path)
    embedded(api, ["bb", "ccc", "dddd"], tmp_path)
    assert sorted(text for body in api.bodies for text in body["input"]) == ["a", "bb", "ccc", "dddd"]
    assert (tmp_path / "vectors.db").is_file()


def test_vectors_of_another_size_are_named_with_their_file(api: ScriptedApi, tmp_path: Path) -> None:
    embedded(api, ["a"], tmp_path)
    api.embed = lambda text: [1.0, 2.0, 3.0]
    with pytest.raises(DataError, match=r"vectors\.db: .*vectors of 2, 3 dimensions.*remove this file"):
        embedded(api, ["a", "b"], tmp_path)


def test_a_key_goes_to_the_vendor_whose_variable_holds_it(
    api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    monkeypatch.setenv("DASHSCOPE_API_KEY", "sk-other")

    async def ask() -> None:
        with open_embedding(options(model="embedder", base_url=api.url), tmp_path, tmp_path) as embedding:
            assert embedding is not None
            await embedding.vectors(["a"])

    asyncio.run(ask())
    assert api.keys == ["sk-own"]


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://dashscope.aliyuncs.com/v1", "sk-dash"),
        ("https://ALIYUNCS.com./v1", "sk-dash"),
        ("https://evilaliyuncs.com/v1", "sk-open"),
        ("https://aliyuncs.com.evil.example/v1", "sk-open"),
    ],
)
def test_a_key_goes_to_the_domain_and_not_to_one_that_ends_like_it(
    url: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-open")
    monkeypatch.setenv("DASHSCOPE_API_KEY", "sk-dash")
    made: list[Endpoint] = []
    monkeypatch.setattr(
        "astuner_datagen.vectors.find_endpoint",
        lambda environ, wanted_by: made.append(find_endpoint(environ, wanted_by)) or made[0],
    )
    with open_embedding(options(model="embedder", base_url=url), tmp_path, tmp_path):
        assert made[0].keys == (key,)


def test_what_came_before_a_failure_is_kept_and_counted(api: ScriptedApi, tmp_path: Path) -> None:
    api.embed = lambda text: [1.0, 1.0 / (text != "e")]
    budget = Budget()

    async def ask() -> None:
        with open_embedding(options(model="embedder", batch_size=2), tmp_path, tmp_path, budget) as embedding:
            assert embedding is not None
            with pytest.raises(Unembedded) as failed:
                await embedding.vectors(["a", "b", "c", "d", "e"])
            assert failed.value.first == 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("astuner.shared.clients.backoff.LONGEST_PAUSE_S", 0.0)
        asyncio.run(ask())
    assert budget.spent.requests == 3
    api.embed = lambda text: [1.0, 2.0]
    api.bodies.clear()
    embedded(api, ["a", "b", "c", "d", "e"], tmp_path, db_path=None)
    assert [text for body in api.bodies for text in body["input"]] == ["e"]


def test_a_key_in_the_yaml_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"api_key: keys are read from the environment"):
        options(model="embedder", api_key="sk-secret")


def test_an_address_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="base_url is the address of an embedding API"):
        options(base_url="http://127.0.0.1/v1")
