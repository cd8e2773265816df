"""The tokenizer of a tiny model for a user's own task. Imports no torch."""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from astuner.contract.protocols import TinyModelJob
from astuner_local.tiny.tokenizer import save_tokenizer, train_tokenizer

VOCAB_SIZE = 2048
"""An upper bound; a small task has fewer different words. With a token for each, a task is learnt sooner than by letters."""

ROLES = "system\nTools: \nuser\nassistant\n"
"""What the chat template writes around every text."""


def make_tiny_tokenizer(job: TinyModelJob) -> PreTrainedTokenizerFast:
    """Train on the texts of the task; write the tokenizer, and return it."""
    tokenizer = train_tokenizer([*job.texts, ROLES], VOCAB_SIZE)
    save_tokenizer(tokenizer, job.out)
    return tokenizer
