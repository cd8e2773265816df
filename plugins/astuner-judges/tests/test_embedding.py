"""Vectors of texts: the same every time, of length one, and of one size."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.errors import DataError
from astuner.shared.clients.llm import LLMClient, LLMFailed
from astuner.shared.clients.llm_budget import LLMBudgetSpent
from astuner.shared.clients.llm_options import LLMOptions
from astuner_devkit.scripted_api import scripted_api
from astuner_judges.embedding import ApiEmbedding, EmbeddingOptions, NgramEmbedding


def vectors(texts: list[str], **options: Any) -> Any:
    return asyncio.run(NgramEmbedding(**options).vectors(texts))


@given(st.lists(st.text(), min_size=1, max_size=6))
def test_rows_have_length_one_or_nothing_in_them(texts: list[str]) -> None:
    found = vectors(texts)
    assert found.shape == (len(texts), 2048)
    lengths = np.linalg.norm(found, axis=1)
    assert lengths == pytest.approx([1.0 if text.split() else 0.0 for text in texts])


def test_texts_that_are_spelt_alike_are_close() -> None:
    a, b, c = vectors(["How many apples are left?", "how many  apples were left?", "Name the capital of Peru."])
    assert a @ b > 0.7 > 0.2 > a @ c


def test_vectors_do_not_depend_on_the_process() -> None:
    first = vectors(["aé中 x"], dimensions=16)
    assert first.round(6).tolist() == vectors(["aé中 x"], dimensions=16).round(6).tolist()
    assert int(np.argmax(first)) == 4


def test_the_api_is_asked_in_parts_and_its_order_kept() -> None:
    with scripted_api() as api:
        api.embed = lambda text: [float(len(text)), 3.0]
        embedding = EmbeddingOptions(kind="api", model_name="text", batch_size=2).make_embedding("the test", api.environ)
        found = asyncio.run(embedding.vectors(["a" * 4, "", "b" * 4]))
    assert found.tolist() == [[0.8, 0.6], pytest.approx([1 / 10**0.5, 3 / 10**0.5]), [0.8, 0.6]]
    assert [body["input"] for body in api.bodies] == [["aaaa", " "], ["bbbb"]]


def test_texts_that_nobody_waits_for_any_more_set_nothing_aside(tmp_path: Path) -> None:
    with scripted_api() as api:
        api.embed, api.pause_s = lambda text: [1.0, 0.0], 0.5
        options = LLMOptions(max_requests=17)
        llm = options.make_client("the test", model="big", config_dir=tmp_path, environ=api.environ)
        embedding = EmbeddingOptions(kind="api", model_name="text", batch_size=1).make_embedding(
            "the test", api.environ, beside=llm
        )

        async def given_up(texts: list[str]) -> None:
            asking = [asyncio.create_task(embedding.vectors([text])) for text in texts]
            await asyncio.sleep(0.2)
            for one in asking:
                one.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

        # Patience has 16 places: the seventeenth waits for one.
        asyncio.run(given_up([str(number) for number in range(17)]))
        assert llm.budget.spent.requests == 16
        assert len(asyncio.run(embedding.vectors(["another"]))) == 1


def test_what_was_embedded_is_kept_and_counted_on_the_budget_of_the_client(tmp_path: Path) -> None:
    with scripted_api() as api:
        api.embed = lambda text: [1.0, 0.0]
        for _ in range(2):
            options = LLMOptions(cache="a.sqlite", max_requests=1)
            llm = options.make_client("the test", model="big", config_dir=tmp_path, environ=api.environ)
            embedding = EmbeddingOptions(kind="api", model_name="text").make_embedding("the test", api.environ, beside=llm)
            assert asyncio.run(embedding.vectors(["a", "b", "a"])).tolist() == [[1.0, 0.0]] * 3
        with pytest.raises(LLMBudgetSpent):
            asyncio.run(ApiEmbedding("other", "the test", environ=api.environ, beside=spent(llm)).vectors(["c"]))
    assert [body["input"] for body in api.bodies] == [["a", "b"]]


def spent(llm: LLMClient) -> LLMClient:
    llm.budget.settle(llm.budget.reserve("", 0))
    return llm


def test_vectors_of_different_sizes_are_refused() -> None:
    with scripted_api() as api:
        api.embed = lambda text: [1.0] * (2 + (text == "b"))
        embedding = EmbeddingOptions(kind="api", model_name="text").make_embedding("the test", api.environ)
        with pytest.raises(DataError, match="vectors of 2, 3 dimensions"):
            asyncio.run(embedding.vectors(["a", "b"]))


def test_an_api_without_embeddings_is_named() -> None:
    with scripted_api() as api:
        embedding = EmbeddingOptions(kind="api", model_name="text").make_embedding("the test", api.environ)
        with pytest.raises(LLMFailed, match=r"embedding model 'text' at http://127.*no embeddings here"):
            asyncio.run(embedding.vectors(["a"]))


def test_an_api_needs_a_model() -> None:
    with pytest.raises(ValueError, match="kind: api needs model_name"):
        EmbeddingOptions(kind="api")
