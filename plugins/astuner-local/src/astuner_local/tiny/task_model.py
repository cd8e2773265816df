"""A tiny model for a user's own task, with random weights."""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from astuner.contract.protocols import TinyModelJob
from astuner_local.tiny.maker import disable_progress_bars
from astuner_local.tiny.model import new_model


def make_tiny_model(job: TinyModelJob) -> None:
    """Write the model next to its tokenizer; the same seed and tokenizer give the same weights."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(job.out, trust_remote_code=False)
    with disable_progress_bars():
        new_model(tokenizer, job.seed, job.context).save_pretrained(job.out)
