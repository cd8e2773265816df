"""A converted model, loaded again and asked something."""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from transformers import AutoModelForCausalLM, AutoTokenizer

from astuner.contract.errors import RunFailed
from astuner_local.pretrained.known_models import KnownModel
from astuner_local.tiny.maker import disable_progress_bars

PLAIN_ENGLISH = (
    "The history of the steam engine is a story of gradual improvement. In the eighteenth century, engines were used mainly to "
    "pump water out of mines. Later, engineers learned to use steam at higher pressure, and small engines could be mounted on "
    "wheels. Railways soon connected the large cities, and people could travel in hours a distance that had taken their parents "
    "several days."
)


@frozen(kw_only=True)
class Impression:
    """What a model makes of plain English."""

    parameters: int
    perplexity: float
    """On a paragraph of plain English; a model that learnt it has below 30."""
    answer: str
    """The likeliest token after the prompt."""


@torch.no_grad()
def check_forward(directory: Path, known: KnownModel | None) -> Impression:
    """Load a folder and ask the model; raises `RunFailed` if it computes no numbers, or not what a known model does."""
    with disable_progress_bars():
        tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, trust_remote_code=False, use_safetensors=True
        )
    model.eval()
    paragraph = _encode(tokenizer, PLAIN_ENGLISH)
    loss = float(model(input_ids=paragraph, labels=paragraph).loss)
    prompt = "The capital of France is" if known is None else known.prompt
    answer = str(tokenizer.decode(model(input_ids=_encode(tokenizer, prompt)).logits[0, -1].argmax()))
    found = Impression(parameters=model.num_parameters(), perplexity=exp(min(loss, 700.0)), answer=answer)
    if not loss < float("inf"):
        raise RunFailed("the converted model computes no finite numbers: its file is damaged, or of a kind that is read wrongly")
    if known is not None and (found.answer != known.answer or found.perplexity > known.most_perplexity):
        raise RunFailed(
            f"the converted model is not {known.title}: after {prompt!r} it says {found.answer!r} and not {known.answer!r}, and "
            f"its perplexity on plain English is {found.perplexity:.4g}, where at most {known.most_perplexity:g} is right"
        )
    return found


def _encode(tokenizer: Any, text: str) -> torch.Tensor:
    """Return token ids, `(1, length)`."""
    return torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
